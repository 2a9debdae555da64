"""What the broker tells the writer, octet by octet: batches of records, and rows of the small tables.

The broker writes one frame after the other into a pipe: a head, and what the head says. A batch of records is a few
parallel runs of octets, not a thing for each record, so that telling of ten thousand messages costs as much as telling
of their batches.

    names     what codes stand for from here on, as JSON: pairs of a table and its next entry, coded from 1
    segments  SEGMENT each: `count` records that have all of it in common, and number their rows and messages on
    seqs      eight octets each, of the segments whose messages are not numbered on
    sizes     four octets each, of the segments whose messages differ in size
    routed    four octets each, of the segments whose messages went to different numbers of queues
    details   DETAIL each, and so many octets: what only some messages have
"""

from struct import Struct

from .. import schema

HEAD = Struct("<BI")  # what it is, and the octets that follow
BOOT, BATCH, ROWS = range(3)  # a JSON map, first of all; records; a JSON list of a table's name and its rows

# Nanoseconds from the monotonic clock to the wall clock, records lost so far in this boot, whether all codes are given
# anew, and the lengths of the six runs.
BATCH_HEAD = Struct("<qqB6I")

# kind (an index into EVENT_NAMES), flags, count, size, routed, codes of origin, queue, address, tag and reason (0 is
# none), first row, time on the monotonic clock, first message
SEGMENT = Struct("<BBxx8Iqqq")
PERSISTENT, REDELIVERED, NO_ACK, SEQS, SIZES, ROUTED, ENQUEUED, LINKED = (1 << bit for bit in range(8))
# ENQUEUED: of a publish, that as many rows follow that say that each message entered the queue. LINKED: of a delivery,
# that a federation link gets it.

DETAIL = Struct("<qIBI")  # first row, how many rows have it, what it is, its octets
PROPERTIES, IDENTITY, HOPS = range(3)  # property bytes as on the wire; text; one octet

ORIGINS, QUEUES, ADDRESSES, WORDS = range(4)  # tables of names
ORIGIN = ("conn_id", "chan", "vhost", "user", "upstream", "link")
QUEUE = ("vhost", "queue")
ADDRESS = ("exchange", "routing_key")
WORD = ("word",)

# A message's number is made of the microsecond in which the broker got it, from the start of the boot, and a turn
# within it. Those that were there before, or whose number was lost on the disk, are numbered from UNTIMED on.
SEQ_SHIFT = 12
UNTIMED = 1 << 62

KINDS = {name: index for index, name in enumerate(schema.EVENT_NAMES)}
