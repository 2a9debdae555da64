"""The reduction of a file of the log to facts (`facts`): a function of rows that needs no Spark.

The rows of a file are in the order of their numbers, and most messages enter and leave a queue within one file. What
such messages did is counted, and only the others keep a row each, which meet those of other files when facts are
merged.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from ..file_format.schema import (
    ACK,
    CONFIRM,
    DEAD_LETTER,
    DELIVER,
    DROP,
    ENQUEUE,
    EXPIRE,
    FED_IN,
    FED_OUT,
    LEAVING,
    PUBLISH,
    REQUEUE,
    RETURN,
    UNROUTED,
)
from .facts import (
    AGES,
    ARRIVALS,
    ATTEMPTS,
    BALANCES,
    BOOT,
    CONSUMERS,
    CROSSINGS,
    FACTS,
    HOLDS,
    JOURNEYS,
    LATENCIES,
    MESSAGES,
    RECEIPTS,
    ROUTES,
    ROWS,
    SLOWEST,
    TRAFFIC,
    TRANSFERS,
    WAYS_OUT,
    Fact,
    Facts,
    Numbers,
    Table,
    bucket,
    codes,
    combinations,
    greatest,
    group,
    is_one_of,
    numbers_of,
    of_boots,
    unified,
)

WEIGHT = 1000  # of a record that represents one message; at half the sampling rate it is twice that
UNROUTABLE = "unroutable"  # the reason of a publish that no queue got
ACK_BUCKETS = range(4, 18)  # bucket n begins at 10**(n / 2) microseconds: from 100 microseconds to 5 minutes
STAGES = {ENQUEUE: "publish_enqueue", CONFIRM: "publish_confirm", DELIVER: "publish_deliver", ACK: "publish_ack"}
WAITED, HELD = "enqueue_deliver", "deliver_ack"  # stages within a queue
WAY_OF = dict(zip((ACK, FED_OUT, EXPIRE, DROP, DEAD_LETTER), WAYS_OUT[1:], strict=True))
Boot = tuple[str, str]
"""A node and the id of its boot."""
NEVER = np.iinfo("i8").max


class CheckedRange(NamedTuple):
    """The rows of a boot that can be compared with snapshots of its queues: from one (inclusive) to another."""

    from_row: int = 0
    to_row: int = NEVER


Ranges = Mapping[Boot, CheckedRange]
"""The checked range of each boot; a boot without one is checked whole."""


def reduce_rows(rows: pa.Table, checked: Ranges) -> Facts:
    """Reduce rows of `events`, with some or all of its columns, to facts. `checked` has the range of each boot."""
    events = Events(rows)
    facts = {
        "traffic": traffic(events),
        "latencies": latencies(events),
        "ages": AGES.schema.empty_table(),
        "slowest": SLOWEST.schema.empty_table(),
        "consumers": consumers(events),
        "holds": HOLDS.schema.empty_table(),
        "routes": routes(events),
        "transfers": transfers(events),
        "attempts": attempts(events),
        "rows": row_ranges(events),
        "balances": BALANCES.schema.empty_table(),
        "journeys": journeys(events),
        "messages": messages(events),
        "crossings": crossings(events),
        "arrivals": arrivals(events),
        "receipts": RECEIPTS.schema.empty_table(),
    }
    return settle(facts, checked)


def settle(facts: Facts, checked: Ranges) -> Facts:
    """Count the journeys that are closed, and drop the messages that are over; the others keep their rows.

    A message is over if its publish is in the log, it entered as many queues as it was routed to, and all its journeys
    are closed. A confirm without its publish is kept, since the publish may be in another part of the log.
    """
    closed, still_open = close(facts["journeys"], checked)
    some = facts["messages"]
    is_open = among(some, still_open, *BOOT, "vhost", "msg_seq")
    over = (some["published"].to_numpy() > 0) & (some["routed"].to_numpy() == some["entered"].to_numpy()) & ~is_open
    kept, arrived = some.filter(pa.array(~over)), facts["arrivals"]
    return facts | {
        "balances": group(BALANCES, pa.concat_tables([facts["balances"], closed.select(BALANCES.schema.names)])),
        **of_journeys(facts, closed),
        "journeys": still_open,
        "messages": kept,
        "arrivals": arrived.filter(pa.array(among(arrived, kept, *ARRIVALS.keys))) if arrived.num_rows else arrived,
        "receipts": group(RECEIPTS, pa.concat_tables([facts["receipts"], receipts(closed, arrived)])),
    }


def of_journeys(facts: Facts, journeys: pa.Table) -> Facts:
    """Add to facts those that journeys show as a whole."""
    made = {"latencies": stages, "ages": ages, "slowest": slowest, "holds": holds}
    return {name: group(FACTS[name], pa.concat_tables([facts[name], make(journeys)])) for name, make in made.items()}


class Events(Table):
    """Rows of the log as columns.

    kind    the event of each row, as the index of its name in `schema.EVENT_NAMES`
    weight  WEIGHT times the number of messages that each row stands for
    """

    def __init__(self, rows: pa.Table) -> None:
        super().__init__(schema.EVENTS, rows)
        event = self["event"].combine_chunks()
        places = {name: place for place, name in enumerate(schema.EVENT_NAMES)}
        known = np.array([places.get(name, -1) for name in event.dictionary.to_pylist()] or [-1])
        self.kind = known[event.indices.to_numpy()]
        self.weight = np.floor(WEIGHT / self["sample_rate"].to_numpy().astype("f8") + 0.5).astype("i8")

    def is_event(self, *names: str) -> Numbers:
        wanted: Numbers = np.array([name in names for name in (*schema.EVENT_NAMES, "")])[self.kind]
        return wanted

    def unroutable(self) -> Numbers:
        """Return where a message was published that no queue got, although none refused it."""
        nowhere: Numbers = self.is_event(PUBLISH, FED_IN) & (self.number("routed", -1) == 0) & self.without_reason
        return nowhere

    @cached_property
    def without_reason(self) -> Numbers:
        return ~self.has("reason") | is_one_of(self["reason"], ("",))

    def only(self, *names: str) -> "Events":
        """Return the events of some kinds."""
        return Events(self.rows.filter(pa.array(self.is_event(*names))))


def only(values: Numbers, where: Numbers) -> pa.Array:
    """Return values, null but for these rows."""
    return pa.array(values, mask=~where)


def traffic(events: Events) -> pa.Table:
    """Count events by queue, user, kind and second, acknowledgements also by the time since the publish."""
    latency_us, timed = np.maximum(events.number("lat_us"), 0), events.has("lat_us")
    place = np.floor(np.log10(np.maximum(latency_us, 1)) * 2).clip(ACK_BUCKETS[0], ACK_BUCKETS[-1]).astype("i1")
    return events.grouped(
        TRAFFIC,
        reason=reasons(events),
        linked=events.has("link"),
        ack_bucket=only(place, timed & events.is_event(ACK)),
        second=events.number("ts_us") // 1_000_000,
        records=np.ones(events.count, "i8"),
        weight=events.weight,
        bytes=events.number("size") * events.weight,
        routed=events.number("routed"),
        latency_us=np.where(timed, latency_us, 0),
        timed=timed.astype("i8"),
        highest_us=latency_us,
    )


def reasons(events: Events) -> pa.ChunkedArray:
    """Return the reasons of events; null is the same as an empty one."""
    reason = events["reason"].combine_chunks()
    texts = pa.array([*reason.dictionary.to_pylist(), UNROUTABLE, ""]).dictionary_encode()
    place = numbers_of(reason.indices.fill_null(-1))  # the last text
    place = np.where(events.unroutable(), len(reason.dictionary), place)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(texts.indices.take(pa.array(place % len(texts))), texts.dictionary)]
    )


def latencies(events: Events) -> pa.Table:
    """Return times since the publish, of redeliveries none, as rows of histograms."""
    wanted = events.is_event(*STAGES) & events.has("lat_us")
    wanted &= ~(events.is_event(DELIVER) & events.number("redelivered").astype(bool))
    stage_names = [STAGES.get(name, name) for name in schema.EVENT_NAMES]
    latency_us = np.maximum(events.number("lat_us"), 0)
    return events.columns(
        LATENCIES,
        stage=pa.DictionaryArray.from_arrays(pa.array(events.kind.astype("i4")), stage_names),
        bucket=bucket(latency_us),
        records=np.ones(events.count, "i8"),
        highest_us=latency_us,
    ).filter(pa.array(wanted))


def stages(journeys: pa.Table) -> pa.Table:
    """Return how long messages waited in their queue, and how long consumers held them, as rows of histograms."""
    entered, delivered, last_delivered, left = (
        journeys[name].fill_null(-1).to_numpy() for name in ("enter_ns", "deliver_ns", "last_deliver_ns", "leave_ns")
    )
    acknowledged = (journeys["acknowledged"].to_numpy() + journeys["federated"].to_numpy()) > 0
    parts = []
    for stage, where, nanoseconds in (
        (WAITED, (delivered >= 0) & (entered >= 0), delivered - entered),
        (HELD, (last_delivered >= 0) & acknowledged, left - last_delivered),
    ):
        times = np.maximum(nanoseconds[where] // 1000, 0).astype("i8")
        part = journeys.select(["node", "vhost", "queue"]).filter(pa.array(where))
        part = part.append_column("stage", pa.array([stage] * len(times), pa.string()).dictionary_encode())
        parts.append(histogram(LATENCIES, part, times))
    return pa.concat_tables(parts)


def ages(journeys: pa.Table) -> pa.Table:
    """Return the ages of dead letters that consumers got, since the first publish, as rows of histograms."""
    known = numbers_of(journeys["origin_us"].is_valid()) & numbers_of(journeys["last_deliver_ns"].is_valid())
    copies = journeys.filter(pa.array(known & (settled(journeys) > 0)))
    inside_us = (copies["last_deliver_ns"].to_numpy() - copies["enter_ns"].to_numpy()) // 1000
    age_us = copies["origin_us"].to_numpy() + np.maximum(inside_us, 0)
    table = copies.select(["node", "vhost", "queue"]).append_column("origin_node", copies["node"])
    table = table.append_column("origin", copies["first_queue"].dictionary_encode())
    return histogram(AGES, table, age_us)


def slowest(journeys: pa.Table) -> pa.Table:
    """Return the messages that consumers settled, with their ages since the first publish."""
    known = numbers_of(journeys["enter_ns"].is_valid()) & numbers_of(journeys["leave_ns"].is_valid())
    rows = journeys.filter(pa.array(known & (settled(journeys) > 0)))
    inside_us = (rows["leave_ns"].to_numpy() - rows["enter_ns"].to_numpy()) // 1000
    age_us = numbers_of(rows["origin_us"].fill_null(0)) + np.maximum(inside_us, 0)
    table = rows.select(list(SLOWEST.keys)).append_column("age_us", pa.array(age_us))
    return greatest(SLOWEST, table.append_column("at", rows["last"]).cast(SLOWEST.schema))


def consumers(events: Events) -> pa.Table:
    """Count the messages that each consumer got and acknowledged."""
    delivers, acks = events.is_event(DELIVER), events.is_event(ACK, FED_OUT)
    at = events.number("ts_us")
    return events.grouped(
        CONSUMERS,
        delivers | acks,
        delivered=np.where(delivers, events.weight, 0),
        acknowledged=np.where(acks, events.weight, 0),
        last_delivered=only(at, delivers),
        last_acknowledged=only(at, acks),
    )


def holds(journeys: pa.Table) -> pa.Table:
    """Return for how long consumers held the messages that they acknowledged."""
    known = [numbers_of(journeys[name].is_valid()) for name in ("consumer", "leave_ns", "last_deliver_ns")]
    rows = journeys.filter(pa.array(np.logical_and.reduce(known)))
    held_us = np.maximum((rows["leave_ns"].to_numpy() - rows["last_deliver_ns"].to_numpy()) // 1000, 0)
    table = rows.select(list(HOLDS.keys)).append_column("held", pa.array(np.ones(rows.num_rows, "i8")))
    for name in ("held_us", "longest_held_us"):
        table = table.append_column(name, pa.array(held_us))
    return group(HOLDS, table.cast(HOLDS.schema))


def consumer_of(tag: str | None, connection: str | None) -> int:
    """Return a number for a consumer, the same in all processes."""
    return 3 * number_of(tag) + number_of(connection)


@lru_cache(1 << 17)
def number_of(name: str | None) -> int:
    return int.from_bytes(blake2b((name or "").encode(), digest_size=7).digest(), "big")


def consumers_of(events: Events) -> Numbers:
    """Return the consumer of each row (`consumer_of`)."""
    numbers = []
    for name in ("consumer_tag", "conn_id"):
        values = [*events[name].combine_chunks().dictionary.to_pylist(), None]
        numbers.append(np.array([number_of(value) for value in values])[codes(events[name])])
    consumer: Numbers = 3 * numbers[0] + numbers[1]
    return consumer


def histogram(fact: Fact, table: pa.Table, times_us: Numbers) -> pa.Table:
    """Return rows of a fact of histograms, from its other keys and the time of each row."""
    columns = {name: table[name] for name in table.column_names}
    columns |= {"bucket": bucket(times_us), "records": np.ones(len(times_us), "i8"), "highest_us": times_us}
    return pa.table({name: columns[name] for name in fact.schema.names}).cast(fact.schema)


def routes(events: Events) -> pa.Table:
    """Count by exchange and routing key what was published, was unroutable, also dead letters, and was returned."""
    published, returned = events.is_event(PUBLISH, FED_IN), events.is_event(RETURN)
    weights = np.where(published, events.weight, 0)
    nowhere = events.unroutable() | events.is_event(UNROUTED)
    dead_lettered = events.is_event(ENQUEUE) & is_one_of(events["reason"], (DEAD_LETTER,))
    at = only(events.number("ts_us"), nowhere)
    dropped = events.is_event(UNROUTED) & ~events.without_reason
    texts = [text_of(events, name, nowhere) for name in ("boot_id", "msg_seq")]
    return events.grouped(
        ROUTES,
        published | returned | nowhere | dead_lettered,
        published=weights,
        bytes=events.number("size") * weights,
        unroutable=np.where(nowhere, events.weight, 0),
        returned=np.where(returned, events.weight, 0),
        unroutable_since=at,
        unroutable_last=at,
        routed_last=only(events.number("ts_us"), dead_lettered | published & (events.number("routed") > 0)),
        dropped_last=only(events.number("ts_us"), dropped),
        drop_reason=text_of(events, "reason", dropped),
        unroutable_message=pc.binary_join_element_wise(*texts, "/"),
    )


def transfers(events: Events) -> pa.Table:
    """Count the messages between clients, exchanges and queues."""
    return events.grouped(
        TRANSFERS,
        events.is_event(PUBLISH, FED_IN, ENQUEUE, DELIVER),
        weight=events.weight,
        bytes=events.number("size") * events.weight,
        redelivered=np.where(events.number("redelivered"), events.weight, 0),
        last=events["ts_us"],
    )


def attempts(events: Events) -> pa.Table:
    """Count the redeliveries and returns of each message that has any."""
    again = events.is_event(DELIVER) & events.number("redelivered").astype(bool)
    back = events.is_event(REQUEUE)
    counts = {"redelivered": again.astype("i8"), "requeued": back.astype("i8")}
    return events.grouped(ATTEMPTS, again | back, **counts, first=events["ts_us"], last=events["ts_us"])


def row_ranges(events: Events) -> pa.Table:
    """Return the ranges of successive row numbers, with the offset of the wall clock from the monotonic clock."""
    names = [codes(events[name]) for name in BOOT]
    order = np.argsort(combinations([*names, events.number("row")]))
    row, boots = events.number("row")[order], [name[order] for name in names]
    begins = np.ones(len(row), bool)
    begins[1:] = np.logical_or.reduce([(np.diff(row) > 1), *(np.diff(boot) != 0 for boot in boots)])
    number = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    first = row[starts][number][back] if len(row) else row
    last = row[np.r_[starts[1:] - 1, len(row) - 1]][number][back] if len(row) else row
    offset = events.number("ts_us") - events.number("mono_ns") // 1000
    return events.grouped(
        ROWS,
        first_row=first,
        last_row=last,
        records=np.ones(events.count, "i8"),
        first=events["ts_us"],
        last=events["ts_us"],
        least_offset=offset,
        greatest_offset=offset,
    )


def journeys(events: Events) -> pa.Table:
    """Return a row for each message in each queue: how it entered, was delivered, and left, as `facts.JOURNEYS`."""
    enters, delivers = events.is_event(ENQUEUE), events.is_event(DELIVER)
    without_ack = delivers & events.number("no_ack").astype(bool)
    leaves = events.is_event(*LEAVING) | without_ack
    row, time = events.number("row"), events.number("mono_ns")
    counts = {"entered": enters, "delivered": delivers, "left": leaves, "delivered_without_ack": without_ack}
    counts |= {name: events.is_event(event) for event, name in WAY_OF.items()}
    return events.grouped(
        JOURNEYS,
        enters | delivers | leaves,
        **{name: where.astype("i8") for name, where in counts.items()},
        enter_row=only(row, enters),
        leave_row=only(row, leaves),
        enter_ns=only(time, enters),
        deliver_ns=only(time, delivers),
        last_deliver_ns=only(time, delivers),
        origin_us=only(events.number("origin_us"), enters & events.has("origin_us")),
        first_queue=text_of(events, "first_queue", enters),
        consumer=only(consumers_of(events), events.is_event(ACK, FED_OUT)),
        leave_ns=only(time, leaves),
        last=events["ts_us"],
    )


def close(journeys: pa.Table, checked: Mapping[tuple[str, str], CheckedRange]) -> tuple[pa.Table, pa.Table]:
    """Divide journeys into closed ones and open ones.

    A journey is closed if the message entered once and left once, both within the checked range, and was delivered if
    it was acknowledged.
    """
    low, high = bounds(journeys, checked)
    entered, left, delivered = (journeys[name].to_numpy() for name in ("entered", "left", "delivered"))
    acknowledged = journeys["acknowledged"].to_numpy() + journeys["federated"].to_numpy()
    enter_row = journeys["enter_row"].fill_null(-1).to_numpy()
    leave_row = journeys["leave_row"].fill_null(NEVER).to_numpy()
    closed = (entered == 1) & (left == 1) & ((acknowledged == 0) | (delivered > 0))
    closed &= (enter_row >= low) & (leave_row < high)
    return journeys.filter(pa.array(closed)), journeys.filter(pa.array(~closed))


def among(rows: pa.Table, others: pa.Table, *keys: str) -> Numbers:
    """Return which rows have the keys of one of the others; most have already another last key."""
    found = numbers_of(pc.is_in(rows[keys[-1]], others[keys[-1]].combine_chunks()))
    some = rows.select(keys).filter(pa.array(found))
    both = unified(pa.concat_tables([some, others.select(keys)]))
    number = combinations([codes(both[name]) for name in keys])
    found[found] = np.isin(number[: some.num_rows], number[some.num_rows :])
    return found


def bounds(rows: pa.Table, checked: Ranges) -> tuple[Numbers, Numbers]:
    """Return both ends of the checked range of the boot of each row."""
    ends = of_boots(rows, checked, CheckedRange())
    return ends[:, 0], ends[:, 1]


def messages(events: Events) -> pa.Table:
    """Return the messages that clients and links published: in how many queues each should be and is, and promises."""
    published, confirmed = events.is_event(PUBLISH, FED_IN), events.is_event(CONFIRM)
    empty = events.without_reason
    entered = events.is_event(ENQUEUE) & empty
    flags = {"persistent": events.number("persistent").astype(bool) & published, "confirmed": confirmed & empty}
    return events.grouped(
        MESSAGES,
        published | confirmed | entered,
        routed=np.where(published, events.number("routed"), 0),
        entered=entered.astype("i8"),
        published=published.astype("i8"),
        **flags,
        at=events["ts_us"],
    )


def crossings(events: Events) -> pa.Table:
    """Return the messages that links took from this broker, or brought to it, by identity."""
    events = events.only(FED_IN, FED_OUT)
    arrives = events.is_event(FED_IN)
    at = events.number("ts_us")
    return events.grouped(
        CROSSINGS,
        taken=(~arrives).astype("i8"),
        arrived=arrives.astype("i8"),
        discarded=(arrives & ~events.without_reason).astype("i8"),
        node=text_of(events, "node", arrives),
        vhost=text_of(events, "vhost", arrives),
        upstream=text_of(events, "upstream", arrives),
        upstream_node=text_of(events, "node", ~arrives),
        published=only(at - events.number("lat_us"), ~arrives & events.has("lat_us")),
        left=only(at, ~arrives),
        entered=only(at, arrives),
        last_entered=only(at, arrives),
    )


def arrivals(events: Events) -> pa.Table:
    """Return the messages that links brought, with their identities."""
    return events.grouped(ARRIVALS, events.is_event(FED_IN) & events.without_reason)


def receipts(journeys: pa.Table, arrived: pa.Table) -> pa.Table:
    """Return when consumers got the messages that links brought, given the arrivals of all of them."""
    got = numbers_of(journeys["last_deliver_ns"].is_valid()) & (settled(journeys) > 0) if arrived.num_rows else None
    if got is None or not got.any():
        return RECEIPTS.schema.empty_table()
    got &= numbers_of(pc.is_in(journeys["msg_seq"], arrived["msg_seq"].combine_chunks()))
    rows = joined(journeys.filter(pa.array(got)), arrived, *ARRIVALS.keys)
    held_us = (rows["leave_ns"].to_numpy() - rows["last_deliver_ns"].to_numpy()) // 1000
    rows = rows.append_column("received_us", pa.array(numbers_of(rows["last"].cast(pa.int64())) - held_us))
    return group(RECEIPTS, rows.select(RECEIPTS.schema.names).cast(RECEIPTS.schema))


def joined(rows: pa.Table, others: pa.Table, *keys: str) -> pa.Table:
    """Return the rows with the columns of the others that have the same keys; names are texts."""
    sides = []
    for table in (rows, others):
        texts = [(field.name, pa.string()) for field in table.schema if pa.types.is_dictionary(field.type)]
        types = {field.name: field.type for field in table.schema} | dict(texts)
        sides.append(table.cast(pa.schema(types.items())))
    return sides[0].join(sides[1], list(keys), join_type="inner", use_threads=False)


def settled(journeys: pa.Table) -> Numbers:
    """Return how often a consumer or link received each message for good."""
    ways = ("acknowledged", "federated", "delivered_without_ack")
    counts: Numbers = np.sum([journeys[name].to_numpy() for name in ways], axis=0)
    return counts


def text_of(events: Events, name: str, where: Numbers) -> pa.ChunkedArray:
    """Return a column as text, null but for these rows."""
    chosen = events[name].filter(pa.array(where)).cast(pa.string())
    return chosen.take(pa.array(np.cumsum(where) - 1, mask=~where))
