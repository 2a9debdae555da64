"""The format of the pipe from the broker to the writer: batches of records, snapshots of queues, and metrics.

The pipe carries frames of a head and a payload. A batch of records is a few runs of bytes instead of an object for each
record, so the cost depends on the number of batches more than on that of messages.

    names     the values of codes from here on, as JSON: pairs of a table and its next entry, coded from 1
    segments  SEGMENT each: `count` records with equal fields and consecutive rows and message numbers
    seqs      eight bytes each, for segments whose messages do not have consecutive numbers
    sizes     four bytes each, for segments whose messages differ in size
    routed    four bytes each, for segments whose messages went to different numbers of queues
    addresses four bytes each, codes, for segments whose messages have different addresses
    details   DETAIL each, and as many bytes: values that only some messages have

A snapshot is one or more frames, each with some of its queues: SNAPSHOT_HEAD, the names of the queues as JSON (a list
of virtual host, queue, type, `durable` and `unattended` for each), and a READING each.
"""

from struct import Struct

from ..file_format import schema

HEAD = Struct("<BI")  # type, length of the payload
BOOT, BATCH, METRICS, SNAPSHOT = range(4)  # a JSON map, sent first; records; a JSON list of rows; queues

# Reports of the writer, in JSON. READY: `written` events of this boot are in finished files, and so is its
# first snapshot if it has `started`. Started: the first snapshot now is. Not written: `records` of events are lost, for
# a `reason`; `of` names the tables. Node taken: the writer of another broker of the same `node` has the `directory`.
READY, STARTED = "message_log_writer_ready", "message_log_started"
NOT_WRITTEN, NODE_TAKEN = "message_log_not_written", "message_log_node_taken"

# Nanoseconds from the monotonic clock to the wall clock, records lost so far in this boot, the last durable batch of
# the store's log, whether all codes are assigned anew, and the lengths of the seven runs.
BATCH_HEAD = Struct("<3qB7I")

# kind (an index into EVENT_NAMES), flags, count, size, routed, codes of origin, queue, address, tag and reason (0 is
# none), first row, time on the monotonic clock, first message
SEGMENT = Struct("<BHx8Iqqq")
PERSISTENT, REDELIVERED, NO_ACK, SEQS, SIZES, ROUTED, ENQUEUED, LINKED, ADDRESSED, DURABLE = (
    1 << bit for bit in range(10)
)
# ENQUEUED: a publish is followed by as many rows for the messages' entering the queue. LINKED: a delivery to a
# federation link. DURABLE: the queue that a message enters is durable.

DETAIL = Struct("<qIBI")  # first row, number of rows, what it is, length
PROPERTIES, IDENTITY, HOPS, SOURCE = range(
    4
)  # property bytes as on the wire; text; one byte; a number, then properties
SOURCE_BYTES = 8  # of the number of the message that this one is a copy of

# Wall clock in microseconds, monotonic clock in nanoseconds, number of the snapshot, next row, records lost so far in
# this boot, the last durable batch of the store's log and the one with its last record, sample rate, kind (an index
# into SNAPSHOT_KINDS), number of queues of the snapshot in its last frame and otherwise -1, length of the names.
SNAPSHOT_HEAD = Struct("<7qdBiI")
SNAPSHOT_KINDS = (schema.START, schema.PERIODIC, schema.STOP)
# ready, unacked, ready_bytes, unacked_bytes, published, delivered, redelivered, acked, recovered (only at the start)
COUNTS = Struct("<9q")
DETAILS = Struct("<qif")  # prefetch (-1: none), consumers, utilisation (not a number: unknown)
READING = Struct("<9qqif")  # both

GROUP_ROWS = 1 << 18  # rows that the writer sorts and writes together, which takes some 50 MB of memory

ORIGINS, QUEUES, ADDRESSES, WORDS = range(4)  # tables of names
ORIGIN = ("conn_id", "chan", "vhost", "user", "upstream", "link")
QUEUE = ("vhost", "queue")
ADDRESS = ("exchange", "routing_key")
WORD = ("word",)

# The number of a message is the microsecond since the start of the boot at which the broker received it, and a counter
# within it. Older messages, and those whose number was lost on the disk, are numbered from UNTIMED on.
SEQ_SHIFT = 12
UNTIMED = 1 << 62

KINDS = {name: index for index, name in enumerate(schema.EVENT_NAMES)}
