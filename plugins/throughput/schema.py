"""What is exported, column by column: the contract of the exporter and of the job. Plain Python, no library.

Layout, append-only, below the folder of the export; a file is written as `.<name>.tmp` and renamed when it is whole:

    events/dt=2026-11-22/hour=05/part-<node>-<boot_id>-<sequence>.parquet
    metrics/..., queue_stats/...   the same

`dt` and `hour` are UTC, of the first row. Several brokers may write into one folder. Each file has the key
`warren.schema` in its key-value metadata, and each row the column `schema`, with the number of `SCHEMA`. A column that
is null in all of a file may be missing from it.

Identity. `boot_id` is one run of one broker. Within it `msg_seq` is one message, above 0: every row of that message
has it, in all queues. It grows, with gaps. A message that a boot found on its disk gets one when it is first
mentioned; numbers of another boot mean nothing. A dead letter is a new message, as is what a delayed or
recent-history exchange brings out. `row` numbers the rows of `events` of a boot from 0 without a gap, in the order in
which things happened, and counts also those that were dropped because the buffer was full: a gap is a record that is
missing, whoever lost it. What sampling leaves out has no number. A sampled message has all its rows or none.

What a row of `events` says, one row for one message:

    publish   a client's message reached an exchange. `routed`: how many `enqueue` rows it gets. Where that is 0,
              `reason` is empty (unroutable), `refused` (by every queue it came to) or `held` (an exchange keeps or
              changes it)
    fed_in    the same for what a federation link brought: `upstream`, `link`, `identity`, `hops`. There is no `publish`
              row beside it. What was taken from the upstream and goes into no queue has the reason: `max_hops`,
              `seen`, `invalid`, `strange`; `held` by the exchange. What is `refused` by a queue comes again
    return    unroutable and mandatory, given back. One that was not mandatory has only its `publish`
    confirm   told to the publisher; `reason` is empty, or `nack`
    enqueue   into one queue. `reason`: empty for publish and fed_in, else where it came from: dlx, held, ...
    deliver   handed to a consumer or got with basic.get (`reason` get). With `no_ack` it leaves the queue thereby.
              `link` where the consumer is that of a federation link
    ack       settled; leaves the queue. fed_out: the same by the consumer of a federation link, `link`, `identity`
    nack      what a consumer said; followed by `requeue`, `drop` or `dlx`. It moves nothing by itself
    requeue   back in its queue: nack or reject, recover, or the end of the channel (`reason`)
    expire    leaves the queue by its time to live, with no dead letter exchange
    drop      leaves the queue for good. `reason`: maxlen, rejected, delivery_limit, purged, deleted (with the queue)
    dlx       leaves the queue for its dead letter exchange. `reason`: rejected, expired, maxlen, delivery_limit

What a queue refuses (overflow reject-publish) never entered it: no `enqueue`, no `drop`, a `confirm` with reason nack.

Conservation, of each queue of a boot, from one snapshot to another (`ready` and `unacked` of `queue_stats`; a queue
that is not in a snapshot has none):

    ready + unacked before + enqueue = ack + fed_out + deliver(no_ack) + expire + drop + dlx + ready + unacked after

What waits within a queue for its dead letter exchange has left: the `dlx` row is written when the queue gives it up.

A snapshot is `queue_stats` rows with the same `snapshot` number: one for each queue, then one whose `queue` is null,
which says that the snapshot is whole and how many `queues` it has. It is of one moment; `row` is the
number that the next row of `events` will have, so what lies before it is exact. There is one when the export starts,
before any event, one every 10 s, and one at the stop, after the last event. The counters in it grow from the start of
the boot or the queue's declaration. With sampling these are whole while events are a part.

Links. `link` is the name of the queue at the upstream from which the link consumes, on both sides. `identity` is the
same on both sides: the message_id, or a fingerprint of the content without what federation itself adds to its headers.
"""

from typing import NamedTuple

SCHEMA = 1
SCHEMA_KEY = "warren.schema"  # of the key-value metadata of a file; its value is the number as text
LOST_KEY = "warren.lost_records"  # likewise: records that the boot had dropped when the file was finished, as text

EVENTS, METRICS, QUEUE_STATS = "events", "metrics", "queue_stats"  # the folders

PUBLISH, RETURN, CONFIRM = "publish", "return", "confirm"
ENQUEUE, DELIVER, ACK, NACK, REQUEUE = "enqueue", "deliver", "ack", "nack", "requeue"
EXPIRE, DROP, DEAD_LETTER = "expire", "drop", "dlx"
FED_IN, FED_OUT = "fed_in", "fed_out"
EVENT_NAMES = (
    *(PUBLISH, RETURN, CONFIRM, ENQUEUE, DELIVER, ACK, NACK, REQUEUE),
    *(EXPIRE, DROP, DEAD_LETTER, FED_IN, FED_OUT),
)
LEAVING = (ACK, FED_OUT, EXPIRE, DROP, DEAD_LETTER)  # and DELIVER where no_ack is true

START, PERIODIC, STOP = "start", "periodic", "stop"  # kinds of snapshots
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"  # kinds of metrics

SNAPSHOT_S = 10


class Column(NamedTuple):
    """`type`: timestamp (microseconds, UTC), int64, int32, int16, int8, float64, float32, bool, string, dictionary
    (of strings), map (string to string), list (of int64). `optional`: may be null.

    Numbers that never get negative are signed all the same: Spark has no other.
    """

    name: str
    type: str
    optional: bool = False


_ALL = (
    Column("schema", "int16"),
    Column("ts_us", "timestamp"),  # wall clock; may jump
    Column("mono_ns", "int64"),  # monotonic within a boot; intervals are taken from it
    Column("node", "dictionary"),
    Column("boot_id", "dictionary"),
)

EVENT_COLUMNS = (
    *_ALL,
    Column("row", "int64"),
    Column("vhost", "dictionary"),
    Column("event", "dictionary"),
    Column("exchange", "dictionary", True),  # "" is the default exchange
    Column("queue", "dictionary", True),
    Column("routing_key", "string", True),
    Column("msg_seq", "int64"),
    Column("message_id", "string", True),
    Column("correlation", "string", True),
    Column("identity", "string", True),  # of fed_in and fed_out
    Column("size", "int32", True),  # octets of the body; not of confirm
    Column("priority", "int8", True),
    Column("persistent", "bool", True),  # of publish and fed_in
    Column("redelivered", "bool"),  # of deliver
    Column("no_ack", "bool"),  # of deliver
    Column("routed", "int32", True),  # of publish and fed_in
    Column("conn_id", "dictionary", True),
    Column("chan", "int32", True),
    Column("consumer_tag", "dictionary", True),
    Column("user", "dictionary", True),
    Column("hops", "int8", True),  # of fed_in: entries of x-received-from
    Column("upstream", "dictionary", True),  # of fed_in: the name of the upstream
    Column("link", "dictionary", True),  # of fed_in and fed_out, and of deliver to a link
    Column("lat_us", "int64", True),  # since this broker got the message; null where it does not know
    Column("reason", "dictionary", True),  # null is the same as ""
    Column("headers", "map", True),  # those of the allow-list
    Column("sample_rate", "float32"),  # 1.0: every message; 0.01: one in a hundred
)

QUEUE_STATS_COLUMNS = (
    *_ALL,
    Column("snapshot", "int64"),  # number within the boot, from 0 without a gap
    Column("kind", "dictionary"),
    Column("row", "int64"),
    Column("lost_records", "int64"),  # so far in this boot
    Column("queues", "int32", True),  # of the closing row alone
    Column("vhost", "dictionary", True),
    Column("queue", "dictionary", True),  # null: the closing row
    Column("queue_type", "dictionary", True),
    Column("durable", "bool", True),
    Column("ready", "int64", True),
    Column("unacked", "int64", True),
    Column("ready_bytes", "int64", True),
    Column("unacked_bytes", "int64", True),
    Column("consumers", "int32", True),
    Column("prefetch", "int32", True),  # of all its consumers together; null where one has no limit
    Column("utilisation", "float32", True),  # share of time in which it could deliver at once, 0 to 1
    Column("published", "int64", True),  # counters: into the queue
    Column("delivered", "int64", True),  # with and without acknowledgement, basic.get too
    Column("redelivered", "int64", True),
    Column("acked", "int64", True),
    Column("sample_rate", "float32"),
)

METRIC_COLUMNS = (
    *_ALL,
    Column("name", "dictionary"),
    Column("labels", "map"),
    Column("kind", "dictionary"),
    Column("value", "float64"),  # of a histogram: the sum
    Column("buckets", "list", True),  # of a histogram: bucket n counts values v with 2**(n-1) <= v < 2**n; 0: v < 1
)

TABLES = {EVENTS: EVENT_COLUMNS, METRICS: METRIC_COLUMNS, QUEUE_STATS: QUEUE_STATS_COLUMNS}

# Names of metrics that the job reads; more may be exported. Units stand last, counters grow from the start of the boot.
CPU_S = "process_cpu_s"
RESIDENT_BYTES = "process_resident_bytes"
MEMORY_LIMIT_BYTES = "memory_limit_bytes"
DISK_FREE_BYTES = "disk_free_bytes"
DISK_LIMIT_BYTES = "disk_limit_bytes"
LOOP_LAG_US = "loop_lag_us"  # histogram
SYNC_US = "journal_sync_us"  # histogram
BATCH_RECORDS = "journal_batch_records"  # histogram
CONNECTIONS, CHANNELS = "connections", "channels"  # gauges
CONNECTIONS_CREATED, CONNECTIONS_CLOSED = "connections_created", "connections_closed"
CHANNELS_CREATED, CHANNELS_CLOSED = "channels_created", "channels_closed"
QUEUES_CREATED, QUEUES_DELETED = "queues_created", "queues_deleted"
LINK_STARTS = "link_starts"  # counter, labels: vhost, upstream, link
LINK_FAILURES = "link_failures"  # likewise


def file_name(node: str, boot_id: str, sequence: int) -> str:
    """`node` and `boot_id` are made of letters, digits, `_`, `.` and `@`; other characters of a node become `_`."""
    safe = "".join(letter if letter.isalnum() or letter in "_.@" else "_" for letter in node)
    return f"part-{safe}-{boot_id}-{sequence:06}.parquet"
