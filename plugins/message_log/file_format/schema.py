"""The schema of the export, column by column: the contract between exporter and job. Plain Python, no library.

Layout below the folder of the export, append-only; a file is written as `.<name>.tmp` and renamed when complete:

    events/dt=2026-11-22/hour=05/part-<node>-<boot_id>-<sequence>.parquet
    metrics/..., queue_stats/...   the same
    manifest/part-<node>-<boot_id>.jsonl   the finished files of one boot
    state/<node>.json                      for the exporter alone: what the node's next boot has to know of this one

`dt` and `hour` are the UTC time of the first row. Several brokers may write into one folder. Each file has the key
`warren.schema` in its key-value metadata, and each row the column `schema`, with the value of `SCHEMA`. A column that
is null throughout a file may be missing from it.

The manifest. Each line is a JSON object. A finished file is {"path": relative to the folder of the export, "table",
"bytes", "rows", "first_row", "last_row", "sha256"}; `first_row` and `last_row` are the least and the greatest `row` in
a file of `events`, and null for the other tables. A file that is taken away on purpose, perhaps one of an earlier boot,
has the line {"removed": path, "reason": "retention" or "compacted"}, written before. A compaction has a manifest of
its own, `manifest/compacted-<id>.jsonl`, with the same lines for its file, after {"replaces": [paths], "by": its path}
(`compacted.py`). A line follows
its file at once, so the last file of a killed writer may have none until a writer of the node is started again.

Identity. `boot_id` identifies one run of one broker, and `msg_seq`, above 0, one message within it: every row of the
message has it, in all queues. It increases, with gaps. A message that was on disk before the boot gets a number with
its first event; numbers of different boots are unrelated. A dead letter is a new message, whose `enqueue` rows name in
`source_seq` the message that it is a copy of; a message that a delayed or recent-history exchange publishes is a new
one too. `row` numbers the rows of `events` of a boot from 0, in the order of the events, and also counts rows that were
lost: a gap always means missing records. Events that sampling omits have no number. A sampled message has all its rows
or none. `row` and the numbers of messages and snapshots continue if the writer process is started again within a boot.

Events. Each row is one event of one message:

    publish   a client's message reached an exchange. `routed` is the number of its `enqueue` rows; if it is 0, `reason`
              is empty (unroutable), `refused` (by every queue of its route) or `held` (an exchange keeps or changes
              it). A message for thousands of queues enters them in several turns of the loop, and only the first counts
    fed_in    the same for a message from a federation link, in place of `publish`: `upstream`, `link`, `identity`,
              `hops`. A message that enters no queue has a reason: `max_hops`, `seen`, `invalid`, `strange`, or `held`
              by the exchange. One that is `refused` by a queue is brought again
    return    basic.return of an unroutable mandatory message. If it was not mandatory, there is only its `publish`
    confirm   the publisher's confirm, or the commit-ok of its transaction; `reason` is empty, or `nack`. With `link`,
              a message from a federation link is durable; only with the `ack-mode` `on-confirm` the link waits for that
    enqueue   entered one queue. `reason`: empty after publish and fed_in, else the source: dlx, held, ...
    deliver   sent to a consumer, or got by basic.get (`reason` get). With `no_ack` it leaves the queue.
              `link` is set if the consumer is a federation link
    ack       settled; leaves the queue. fed_out: the same by a federation link, with `link` and `identity`
    nack      rejected by a consumer; followed by `requeue`, `drop` or `dlx`, which move the message
    requeue   back in its queue, after nack, reject, recover, or the closing of the channel (`reason`)
    expire    leaves the queue by its time to live, without a dead letter exchange
    drop      leaves the queue for good. `reason`: maxlen, rejected, delivery_limit, purged, deleted (with the queue),
              moved (by an operator; the destinations have an `enqueue` with the same reason)
    dlx       leaves the queue for its dead letter exchange. `reason`: rejected, expired, maxlen, delivery_limit
    unrouted  after `dlx`, is dropped: the dead letter `exchange` leads to no queue with this key, or does not exist.
              `reason`: `cycle` if all queues that it leads to had the message before, `refused` if the only one is full

A message that a queue refuses (overflow reject-publish) never entered it: it has no `enqueue` and no `drop`, but a
`confirm` with the reason nack.

Conservation, for each queue of a boot, from one snapshot to another (`ready` and `unacked` of `queue_stats`, which are
0 for a queue that is not in the snapshot):

    ready + unacked before + enqueue = ack + fed_out + deliver(no_ack) + expire + drop + dlx + ready + unacked after

A message in a queue's dead letter outbox has left the queue: its `dlx` row is written when it enters the outbox.

A snapshot is the `queue_stats` rows with one `snapshot` number: a row for each queue, then a closing row whose `queue`
is null and whose `queues` is their number; without it the snapshot is incomplete. It is of one moment: `row` is the
number that the next row of `events` will have. There is a snapshot at the start of the export, before any event, one
every 10 s, and one at the stop, after the last event. The rows of events before a snapshot are finished first. Its
counters increase from the start of the boot or the declaration of the queue, and are not sampled. Snapshots may be
missing from a boot whose writer was killed.

Lost records. `lost_records` of a snapshot, and the key `warren.lost_records` of a file, count the rows of this boot
that are in no file and never will be: those that did not fit into the broker's buffer, that a killed writer had not
finished, or that could not be written.

Store. The log of the broker's store is a sequence of batches, numbered without gaps over all starts. The closing row of
each snapshot has `durable_batch`, the last one that was durable, and `last_batch`, the one that has all before the
snapshot. That of a start also says how the process found it: `store` identifies the log, `recovered_batch` is its last
batch, `settling_batch` the last one that settled messages, and `damage` counts damaged or missing parts; all are null
if nothing is stored. `previous_batch` is the last batch that was durable when the boot before sent its last record.

Boots. The closing row of the snapshot of a start names the boot of the node before it in this folder: `previous_boot`,
`previous_row`, which is the number of that boot's next row, and `previous_at`, the time of its last record or snapshot,
both as far as they were known. All are null for the first boot of a node. `exported_boot` is the boot before it that
exported to this folder by the broker's data folder, and `exported_at` a time of it: they differ from the others if the
folder was lost or replaced by a backup, or if a broker was started again soon after a kill, so that their writers
learned of each other in another order. `retention_days` are the days for which this boot keeps files, or null if it
keeps them for ever. `comparable` is false if messages may have come and gone without a record since then: the process
is the same and the service was stopped, or other virtual hosts are exported.

Durability. `recovered` is the number of a queue's messages that the process found in its store: those of the snapshot
of the start, and those that expired or exceeded a limit before it. No client connects before that snapshot, and none is
connected at the snapshot of the stop, so `recovered` is compared with the persistent messages of the boot before.

Links. On both sides, `link` is the name of the upstream queue from which the link consumes, and `identity` is the
message_id, or a fingerprint of the content without the headers that federation adds.
"""

import re
from typing import NamedTuple

SCHEMA = 2
SCHEMA_KEY = "warren.schema"  # of the key-value metadata of a file; its value is the number as text
NODE_KEY = "warren.node"  # likewise: the name of the node, of which a file's name has only the safe characters
LOST_KEY = "warren.lost_records"  # likewise: records that the boot had lost when the file was finished, as text
FILE_AGE_KEY = "warren.file_age_s"  # likewise: the age at which the writer finishes a file

EVENTS, METRICS, QUEUE_STATS = "events", "metrics", "queue_stats"  # the folders
MANIFEST, STATE = "manifest", "state"  # likewise
RETENTION, COMPACTED = "retention", "compacted"  # reasons for the removal of a file

PUBLISH, RETURN, CONFIRM = "publish", "return", "confirm"
ENQUEUE, DELIVER, ACK, NACK, REQUEUE = "enqueue", "deliver", "ack", "nack", "requeue"
EXPIRE, DROP, DEAD_LETTER, UNROUTED = "expire", "drop", "dlx", "unrouted"
FED_IN, FED_OUT = "fed_in", "fed_out"
EVENT_NAMES = (
    *(PUBLISH, RETURN, CONFIRM, ENQUEUE, DELIVER, ACK, NACK, REQUEUE),
    *(EXPIRE, DROP, DEAD_LETTER, UNROUTED, FED_IN, FED_OUT),
)
LEAVING = (ACK, FED_OUT, EXPIRE, DROP, DEAD_LETTER)  # and DELIVER where no_ack is true

START, PERIODIC, STOP = "start", "periodic", "stop"  # kinds of snapshots
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"  # kinds of metrics

SNAPSHOT_S = 10


class Column(NamedTuple):
    """A column.

    `type`: timestamp (microseconds, UTC), int64, int32, int16, int8, float64, float32, bool, string, dictionary
    (of strings), map (string to string), list (of int64). `optional`: may be null.

    Numbers are signed even if they are never negative: Spark has no unsigned ones.
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
    Column("source_seq", "int64", True),  # of enqueue: the message that this one is a copy of, if known
    Column("origin_us", "int64", True),  # of enqueue: since the broker received the first of these messages
    Column("first_queue", "dictionary", True),  # of enqueue: the queue that dead-lettered the first of them
    Column("message_id", "string", True),
    Column("correlation", "string", True),
    Column("identity", "string", True),  # of fed_in and fed_out
    Column("size", "int32", True),  # bytes of the body; null for confirm
    Column("priority", "int8", True),
    Column("persistent", "bool", True),  # of publish and fed_in
    Column("durable", "bool", True),  # of enqueue: the queue is
    Column("redelivered", "bool"),  # of deliver
    Column("no_ack", "bool"),  # of deliver
    Column("routed", "int32", True),  # of publish and fed_in
    Column("conn_id", "dictionary", True),
    Column("chan", "int32", True),
    Column("consumer_tag", "dictionary", True),
    Column("user", "dictionary", True),
    Column("hops", "int8", True),  # of fed_in: entries of x-received-from
    Column("upstream", "dictionary", True),  # of fed_in: the name of the upstream
    Column("link", "dictionary", True),  # of fed_in and fed_out, of their confirm, and of deliver to a link
    Column("lat_us", "int64", True),  # since this broker received the message; null if unknown
    Column("reason", "dictionary", True),  # null is the same as ""
    Column("headers", "map", True),  # those of the allow-list
    Column("sample_rate", "float32"),  # 1.0: every message; 0.01: one in a hundred
)

QUEUE_STATS_COLUMNS = (
    *_ALL,
    Column("snapshot", "int64"),  # number within the boot, from 0 without a gap
    Column("kind", "dictionary"),
    Column("row", "int64"),
    Column("lost_records", "int64"),  # in this boot so far
    Column("queues", "int32", True),  # only in the closing row
    Column("vhost", "dictionary", True),
    Column("queue", "dictionary", True),  # null: the closing row
    Column("queue_type", "dictionary", True),
    Column("durable", "bool", True),  # whether its persistent messages survive a restart: not if nothing is stored
    Column("unattended", "bool", True),  # messages wait by design: for dead-lettering by age, or as the one last value
    Column("ready", "int64", True),
    Column("unacked", "int64", True),
    Column("ready_bytes", "int64", True),
    Column("unacked_bytes", "int64", True),
    Column("consumers", "int32", True),
    Column("prefetch", "int32", True),  # the sum of its consumers' prefetches; null if one has no limit
    Column("utilisation", "float32", True),  # share of time in which the queue could deliver at once, 0 to 1
    Column("published", "int64", True),  # counters: into the queue
    Column("delivered", "int64", True),  # with and without acknowledgement, basic.get too
    Column("redelivered", "int64", True),
    Column("acked", "int64", True),
    Column("sample_rate", "float32"),
    Column("previous_boot", "string", True),  # only in the closing row of a start, like the following
    Column("previous_row", "int64", True),
    Column("previous_at", "timestamp", True),
    Column("exported_boot", "string", True),
    Column("exported_at", "timestamp", True),
    Column("retention_days", "int32", True),  # null: infinity
    Column("comparable", "bool", True),  # null: yes
    Column("recovered", "int64", True),  # of a queue, only in the snapshot of a start
    *(Column(name, "int64", True) for name in ("previous_batch", "store", "recovered_batch", "settling_batch")),
    Column("damage", "int64", True),
    *(Column(name, "int64", True) for name in ("durable_batch", "last_batch")),  # in each closing row
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

# Names of metrics that the job reads; more may be exported. Units come last; counters start at 0 in each boot.
CPU_S = "process_cpu_s"
RESIDENT_BYTES = "process_resident_bytes"
MEMORY_LIMIT_BYTES = "memory_limit_bytes"
DISK_FREE_BYTES = "disk_free_bytes"
DISK_LIMIT_BYTES = "disk_limit_bytes"
OPEN_DESCRIPTORS, DESCRIPTOR_LIMIT = "open_descriptors", "descriptor_limit"
LOOP_LAG_US = "loop_lag_us"  # histogram
SYNC_US = "journal_sync_us"  # histogram
BATCH_RECORDS = "journal_batch_records"  # histogram
CONNECTIONS, CHANNELS = "connections", "channels"  # gauges
CONNECTIONS_CREATED, CONNECTIONS_CLOSED = "connections_created", "connections_closed"
CHANNELS_CREATED, CHANNELS_CLOSED = "channels_created", "channels_closed"
QUEUES_CREATED, QUEUES_DELETED = "queues_created", "queues_deleted"
LINK_STARTS = "link_starts"  # counter, labels: vhost, upstream, link
LINK_FAILURES = "link_failures"  # likewise


class PartName(NamedTuple):
    """The parts of a file's name: the boot, and the sequence numbers of the first and the last file in it.

    The numbers differ for the file of a compaction.
    """

    boot: str  # `part-<node>-<boot_id>`
    first: int
    last: int

    def __str__(self) -> str:
        last = f"_{self.last:06}" if self.last != self.first else ""
        return f"{self.boot}-{self.first:06}{last}.parquet"


_PART = re.compile(r"(part-.+)-(\d{6,})(?:_(\d{6,}))?\.parquet")


def parse_name(name: str) -> PartName | None:
    """Return the parts of a file's name, or None if the export does not name files so."""
    matched = _PART.fullmatch(name)
    if matched is None:
        return None
    part = PartName(matched[1], int(matched[2]), int(matched[3] or matched[2]))
    return part if str(part) == name and part.first <= part.last else None


def boot_key(name: str) -> str:
    """Return the common beginning of the names of all files of a boot, given the name or path of one."""
    return name.rpartition("/")[2].rpartition("-")[0]


def file_name(node: str, boot_id: str, sequence: int) -> str:
    """Return a file's name. Characters of `node` other than letters, digits, `_`, `.` and `@` become `_`."""
    return f"part-{safe_name(node)}-{boot_id}-{sequence:06}.parquet"


def manifest_name(node: str, boot_id: str) -> str:
    """Return the name of a boot's manifest."""
    return f"part-{safe_name(node)}-{boot_id}.jsonl"


def safe_name(node: str) -> str:
    """Return the name of a node without the characters that file names here do not have."""
    return "".join(letter if letter.isalnum() or letter in "_.@" else "_" for letter in node)
