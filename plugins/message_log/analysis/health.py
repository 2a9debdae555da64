"""The health of queues and nodes at the end of a log: each fault with its cause, its beginning and a message.

A queue is judged by the snapshots and events of its node's newest boot. Of several causes the first counts:

    no consumer  messages wait in a queue that needs a consumer and has none; none leaves by a limit or its time to live
    stuck        consumers hold messages, and settle none for much longer than usual
    blocked      consumers get none of the messages that wait; or a node accepts none, for lack of memory or disk
    poison       a message is delivered again and again
    slow         the queue grows, because its consumers settle too few messages, or have settled none yet
    growing      the queue grows, although messages leave it in other ways
    unroutable   messages of a routing key go to no queue, and are not returned

Nothing is said of a queue until a cause has lasted for LEAST_S, or of a queue that holds messages back by design.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, islice, pairwise
from statistics import median
from typing import NamedTuple

import pyarrow as pa

from ..file_format import schema
from ..file_format.printable import IS, WAITS, count
from ..file_format.schema import ACK, DEAD_LETTER, DELIVER, DROP, EXPIRE, FED_OUT, NACK
from .beginnings import Name, micros
from .boots import Boot
from .facts import BOOT, TIME, Fact, Facts, Measure, Values, group, keyed, measures, names, numbers_of
from .reduction import HELD, WEIGHT
from .snapshots import Window

Queue = tuple[str, str | None, str | None]
"""Node, virtual host and name."""

BLOCKED, STUCK, NO_CONSUMER, POISON = "blocked", "stuck", "no consumer", "poison"
SLOW, GROWING, UNROUTABLE = "slow", "growing", "unroutable"
CAUSES = (BLOCKED, STUCK, NO_CONSUMER, POISON, SLOW, GROWING, UNROUTABLE)  # the worst first
WELL, WRONG, UNKNOWN = "well", "wrong", "unknown"
LEAST_S = 30  # for which a cause must last
RECENT_S = 60  # before the end of a boot, in which a message must have been delivered again to be poison
NOW_S = 600  # before the end of the log, in which a node must have been seen, and a message unroutable
GOT_S = 120  # for which messages must wait without a delivery: a consumer may return, or fetch them (basic.get)
HELD_TIMES = 3  # the 99th percentile of the time for which consumers hold a message, until they are stuck
TIMEOUT_S = 1800  # the same if none was acknowledged before: the default consumer timeout
REDELIVERED = 5  # deliveries after the first one that make a message poison
WAIT_S = 10  # for which messages wait in a queue that is slow, at the rate at which they leave it
LEFT_S = 2 * schema.SNAPSHOT_S  # the same of those that a client which fetches messages leaves, seen up to 10 s later
WINDOW_S, INTERVALS = 1800, 10  # of the trend of a queue
POINTS = 4  # intervals that a trend needs
STILL = 0.9  # the share of its greatest length that a growing queue has at the end
SECOND = 1_000_000
FEW = 3  # times as many messages wait as have left by a limit or their time to live, if they do not wait by design
BY_DESIGN = {EXPIRE: ("expired",), DROP: ("maxlen",), DEAD_LETTER: ("expired", "maxlen")}  # reasons of events
OLDEST = Fact(names(*BOOT, "vhost", "queue"), measures("min", "second", "waiting", "held"))
AGAIN = Fact(
    names(*BOOT, "vhost", "queue"),
    {**measures("last", "delivered", "msg_seq"), **{name: Measure("last", TIME) for name in ("first", "last")}},
)


def oldest(journeys: pa.Table) -> pa.Table:
    """Return the oldest messages that are still there, by queue and boot.

    `waiting` is the one that was neither delivered nor removed, `second` when it entered; `held` was delivered.
    """
    entered, delivered, left = (journeys[name].to_numpy() for name in ("entered", "delivered", "left"))
    waits, is_held = (entered > 0) & (delivered == 0) & (left == 0), (delivered > 0) & (left == 0)
    number, last_us = (numbers_of(journeys[name].cast(pa.int64())) for name in ("msg_seq", "last"))
    columns = {"second": (last_us // SECOND, waits), "waiting": (number, waits), "held": (number, is_held)}
    table = journeys.select(list(OLDEST.keys))  # the only event of a waiting message is its enqueue
    for name, (values, where) in columns.items():
        table = table.append_column(name, pa.array(values, mask=~where))
    return group(OLDEST, table.filter(pa.array(waits | is_held)))


def most_delivered(journeys: pa.Table) -> pa.Table:
    """Return the message that was delivered most often of those that are still there, by queue and boot."""
    again = (journeys["delivered"].to_numpy() > REDELIVERED) & (journeys["left"].to_numpy() == 0)
    rows = journeys.filter(pa.array(again))
    last_us = numbers_of(rows["last"].cast(pa.int64()))
    span_us = (rows["last_deliver_ns"].to_numpy() - rows["deliver_ns"].to_numpy()) // 1000
    columns = {name: rows[name] for name in AGAIN.schema.names if name != "first"}
    columns["first"] = pa.array(last_us - span_us).cast(TIME)
    return group(AGAIN, pa.table({name: columns[name] for name in AGAIN.schema.names}))


@dataclass(slots=True)
class Finding:
    """A cause at a queue, a node or a routing key; `message` is an example as BOOT/NUMBER, or None."""

    cause: str
    node: str
    vhost: str | None
    queue: str | None
    since: datetime
    text: str
    messages: int | None = None
    message: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


class Trend(NamedTuple):
    """The growth of a queue.

    slope_per_s  messages a second
    grows        whether it grows for certain
    outgrows     whether what is left in it when clients fetch messages grows for certain
    leave_per_s  messages that leave it a second
    counted_us   the last interval in which its counters of delivered and of acknowledged messages increased
    """

    slope_per_s: float
    grows: bool
    outgrows: bool
    leave_per_s: float
    counted_us: Mapping[str, tuple[int, int]]


def newest(boots: Iterable[Boot]) -> dict[str, Boot]:
    """Return the newest boot of each node, without nodes of which nothing was seen for NOW_S."""
    boots = list(boots)
    end_us = max((micros(boot.last) for boot in boots), default=0)
    return {
        boot.node: boot
        for boot in sorted(boots, key=lambda each: micros(each.last))
        if boot.next_boot_id is None and end_us - micros(boot.last) <= NOW_S * SECOND
    }


def windows(boots: Iterable[Boot], latest: Iterable[Values]) -> dict[Name, Window]:
    """Return the window of the newest boot of each node; `latest` are rows of the fact of this name."""
    of_boots = keyed((row for row in latest if not row["stopping"]), *BOOT)
    found = {}
    for boot in newest(boots).values():
        if boot.name in of_boots:
            end_us = max(micros(row["at"]) for row in of_boots[boot.name])
            span_us = min(WINDOW_S * SECOND, end_us - micros(boot.first))
            interval_us = max(schema.SNAPSHOT_S * SECOND, -(-span_us // INTERVALS))
            found[boot.name] = Window(end_us, interval_us, span_us // interval_us + 1)
    return found


def trends(rows: pa.Table, of_boots: Mapping[Name, Window]) -> dict[Queue, Trend]:
    """Return the trends of queues, from their lengths in the windows (`snapshots.TREND`)."""
    of_nodes = {node: window for (node, _), window in of_boots.items()}
    return {
        (node, vhost, queue): trend(sorted(some, key=lambda row: int(row["interval"])), of_nodes[node])
        for (node, vhost, queue), some in keyed(rows.to_pylist(), "node", "vhost", "queue").items()
        if len(some) >= POINTS
    }


def trend(rows: list[Values], window: Window) -> Trend:
    """Return the trend of a queue by the slopes between all pairs of intervals: their median, and whether most rise."""
    points = [(row["interval"] * window.interval_us / SECOND, row["length"] / row["snapshots"]) for row in rows]
    slopes = slopes_between(points)
    (begin_s, before), (end_s, now) = points[0], points[-1]
    entered = (rows[-1]["published"] or 0) - (rows[0]["published_before"] or 0)
    leave_per_s = max(entered - (now - before), 0) / (end_s - begin_s)
    grows = slopes[len(slopes) // 4] > 0 and now >= STILL * max(length for _, length in points)
    increased = {name: rows_after_increase(rows, name) for name in ("delivered", "acked")}
    counted_us = {}
    for name, some in increased.items():
        if some:
            end_us = window.end_us - (window.intervals - 1 - some[-1]["interval"]) * window.interval_us
            counted_us[name] = end_us - window.interval_us, end_us
    fetched = increased["delivered"]
    left = slopes_between([(row["interval"] * window.interval_us / SECOND, row["least"]) for row in fetched])
    outgrows = len(fetched) >= POINTS and left[len(left) // 4] > 0 and fetched[-1]["least"] >= LEFT_S * leave_per_s
    return Trend(median(slopes), grows, outgrows, leave_per_s, counted_us)


def rows_after_increase(rows: list[Values], name: str) -> list[Values]:
    """Return the intervals in which a counter increased."""
    return [row for before, row in pairwise(rows) if (row[name] or 0) > (before[name] or 0)]


def slopes_between(points: list[tuple[float, float]]) -> list[float]:
    """Return the slopes between all pairs of points, the least first."""
    return sorted((y - v) / (x - u) for (u, v), (x, y) in combinations(points, 2))


class Judge:
    """The judge of queues, by their events.

    The counters of the snapshots count as well: a sample has few of the events, and a log may lack some.
    """

    def __init__(self, boots: Iterable[Boot], kinds: Iterable[Values], facts: Facts, latency: Iterable[Values]) -> None:
        """`kinds` and `latency` are rows of the fact and of the report of these names."""
        self.boots = newest(boots)
        self.settled: dict[Queue, int] = {}  # when a message was settled last in the newest boot
        self.delivered: dict[Queue, int] = {}
        self.fetched: dict[Queue, int] = {}  # the same as `delivered`, but in all boots
        self.purged: dict[Queue, int] = {}
        self.by_design: dict[Queue, int] = {}  # when a message left a queue last by a limit or its time to live
        self.left: Counter[Queue] = Counter()  # how many have
        for row in sorted(kinds, key=lambda row: int(row["last"])):
            queue, event, last_us = queue_of(row), row["event"], row["last"] * SECOND
            if row["reason"] in BY_DESIGN.get(event, ()):
                self.by_design[queue] = last_us
                self.left[queue] += row["weight"] // WEIGHT
            if event == DROP and row["reason"] == "purged":
                self.purged[queue] = last_us
            if self.is_newest(row) and (event in (ACK, FED_OUT, NACK) or event == DELIVER and row["no_ack"]):
                self.settled[queue] = last_us
            if event == DELIVER:
                self.fetched[queue] = last_us
                if self.is_newest(row):
                    self.delivered[queue] = last_us
        held = [row for row in latency if row["stage"] == HELD]
        self.patience_us = {queue_of(row): max(HELD_TIMES * row["p99_us"], row["max_us"]) for row in held}
        self.consumed: dict[Queue, int] = {}  # when queues that have had consumers had them last
        self.oldest = keyed(facts["oldest"].to_pylist(), "node", "vhost", "queue")
        again = [row for row in facts["again"].to_pylist() if self.is_newest(row)]
        self.again = {queue_of(row): row for row in again if self.is_recent(row, row["last"], RECENT_S)}
        self.unroutable = [row for row in facts["routes"].to_pylist() if self.is_lost(row)]

    def is_newest(self, row: Values) -> bool:
        boot = self.boots.get(row["node"])
        return boot is not None and boot.boot_id == row["boot_id"]

    def is_recent(self, row: Values, at: datetime | None, within_s: int) -> bool:
        boot = self.boots.get(row["node"])
        return boot is not None and at is not None and micros(boot.last) - micros(at) <= within_s * SECOND

    def is_lost(self, route: Values) -> bool:
        """Return whether messages of a routing key go to no queue now, and are not returned."""
        if route["exchange"] == "" and (route["routing_key"] or "").startswith(REPLY_QUEUES):
            return False  # the client that asked is gone
        last = route["unroutable_last"]
        return (
            route["unroutable"] > route["returned"]
            and self.is_recent(route, last, NOW_S)
            and micros(last) - self.routed_us(route) >= LEAST_S * SECOND
        )

    def routed_us(self, route: Values) -> int:
        """Return when messages of a routing key went to a queue last.

        That is before the first one was dropped if dead letters are, since others go to their queue meanwhile.
        """
        dropped = self.is_recent(route, route["dropped_last"], NOW_S)
        return micros(route["unroutable_since" if dropped else "routed_last"])

    def example(self, queue: Queue, which: str) -> str | None:
        """Return the oldest message that waits or is held, of the newest boot if that has one."""
        rows = sorted(self.oldest.get(queue, []), key=lambda row: not self.is_newest(row))
        return next((f"{row['boot_id']}/{row[which]}" for row in rows if row[which] is not None), None)

    def holds_back(self, state: Values) -> bool:
        """Return whether messages wait by design in a queue without consumers, given its last snapshot."""
        queue = queue_of(state)
        if state["unattended"] and queue not in self.consumed:
            return True
        if self.left[queue] * FEW < (state["ready"] or 0):
            return False
        attended_us, designed_us = self.consumed.get(queue, 0), self.by_design.get(queue)
        return designed_us is not None and designed_us + SECOND >= max(attended_us, self.fetched.get(queue, 0))

    def causes_at(self, state: Values, turns: Values, growth: Trend | None) -> Iterator[Finding | None]:
        """Yield what may be wrong with a queue, from its last snapshot and its turns in the same boot."""
        queue, at_us = queue_of(state), micros(state["at"])
        ready, unacked, consumers = (state[name] or 0 for name in ("ready", "unacked", "consumers"))
        waiting = count(ready, "message", WAITS)
        grows = growth is not None and growth.grows
        none_ready_us = max(latest(turns, "none_ready"), self.purged.get(queue, 0))
        settled_us = last_of(self.settled.get(queue, 0), "acked", growth)
        delivered_us = last_of(self.delivered.get(queue, 0), "delivered", growth)

        def lasting(cause: str, since_us: int, text: str, which: str = "waiting", least_us: int = 0) -> Finding | None:
            """Return a finding if its cause has lasted; `which` message is the example."""
            if at_us - since_us < max(LEAST_S * SECOND, least_us):
                return None
            return Finding(cause, *queue, time_of(since_us), text, ready + unacked, self.example(queue, which))

        if ready and not consumers:
            if self.holds_back(state):
                return
            since_us = max(none_ready_us, latest(turns, "consumed"))
            link = "its federation link is down, " if (queue[2] or "").startswith(LINK_QUEUE) else ""
            text = f"{link}{waiting}"
            yield lasting(NO_CONSUMER, max(since_us, delivered_us), text, least_us=GOT_S * SECOND)
            if delivered_us <= since_us:
                return
        if consumers and unacked and (grows or at_us - none_ready_us >= LEAST_S * SECOND):
            text = f"{count(unacked, 'message')} delivered and none settled, {ready:,} more {WAITS[ready != 1]}"
            since_us = max(latest(turns, "none_unacked"), settled_us)
            yield lasting(STUCK, since_us, text, "held", self.patience_us.get(queue, TIMEOUT_S * SECOND))
        if consumers and ready and not unacked:
            text = f"nothing is delivered to its consumers, {waiting}"
            yield lasting(BLOCKED, max(none_ready_us, delivered_us), text)
        if queue in self.again:
            row = self.again[queue]
            text = f"one message was delivered {row['delivered']:,} times, {waiting}"
            yield Finding(POISON, *queue, row["first"], text, ready + unacked, f"{row['boot_id']}/{row['msg_seq']}")
        if growth is not None and grows and ready >= WAIT_S * growth.leave_per_s and (consumers or growth.outgrows):
            who = "consumers do not keep up" if settled_us else "consumers have settled none yet"
            who = who if consumers else "messages enter faster than they leave"
            text = f"{who}, {waiting}, {growth.slope_per_s:,.1f} more every second"
            yield lasting(SLOW if consumers else GROWING, none_ready_us, text)

    def of_routes(self) -> list[Finding]:
        """Return the exchanges with unroutable messages, each with the key that most of them have."""
        found = []
        for (node, vhost, exchange), rows in keyed(self.unroutable, "node", "vhost", "exchange").items():
            first = max(rows, key=lambda row: (row["unroutable"] - row["returned"], row["routing_key"] or ""))
            lost = round(sum(row["unroutable"] - row["returned"] for row in rows) / WEIGHT)
            since_us = min(max(micros(row["unroutable_since"]), self.routed_us(row)) for row in rows)
            keys = f", with {len(rows):,} keys" if len(rows) > 1 else ""
            noun = "message" if any(row["published"] for row in rows) else "dead letter"
            why = {DROPS[row["drop_reason"]] for row in rows if row["drop_reason"] in DROPS}
            text = f"{count(lost, noun)} went to no queue{keys}{''.join(sorted(why))}"
            example = first["unroutable_message"], exchange, first["routing_key"]
            found.append(Finding(UNROUTABLE, node, vhost, None, time_of(since_us), text, lost, *example))
        return found


DROPS = {"cycle": ", in a cycle of queues", "refused": ", refused by a full one"}  # by the reason
REPLY_QUEUES = ("amq.rabbitmq.reply-to.", "amq.gen-")  # the beginnings of the names of queues of one client
LINK_QUEUE = "federation: "  # the beginning of the names of queues from which links consume


def findings(
    boots: list[Boot],
    snapshots: Facts,
    of_queues: Mapping[Queue, Trend],
    judge: Judge,
    readings: Iterable[Values],
) -> list[Finding]:
    """Return everything that is wrong, the worst first; `readings` are those of the metrics."""
    of_boots = snapshots["turns"].to_pylist()
    for row in of_boots:
        if row["consumed"] is not None:
            judge.consumed[queue_of(row)] = max(micros(row["consumed"]), judge.consumed.get(queue_of(row), 0))
    turns = {queue_of(row): row for row in of_boots if judge.is_newest(row)}
    states = [row for row in snapshots["latest"].to_pylist() if judge.is_newest(row) and not row["stopping"]]
    found = judge.of_routes() + blocked_nodes(judge.boots, readings)
    for of_node in keyed(states, "node").values():
        last = max(row["at"] for row in of_node)
        for row in of_node:
            if row["at"] == last:  # the others are deleted
                causes = judge.causes_at(row, turns[queue_of(row)], of_queues.get(queue_of(row)))
                found += islice(filter(None, causes), 1)
    return sorted(found, key=lambda each: (CAUSES.index(each.cause), -(each.messages or 0), each.since, each.node))


LIMITS = {  # a gauge and its limit, and whether it is to stay below it
    "memory": (schema.RESIDENT_BYTES, schema.MEMORY_LIMIT_BYTES, True),
    "disk": (schema.DISK_FREE_BYTES, schema.DISK_LIMIT_BYTES, False),
}


def blocked_nodes(boots: Mapping[str, Boot], readings: Iterable[Values]) -> list[Finding]:
    """Return the nodes that accept no messages, because their memory or disk is at its limit."""
    wanted = {name for gauge, limit, _ in LIMITS.values() for name in (gauge, limit)}
    moments: dict[str, dict[int, Values]] = {}
    for row in readings:
        boot = boots.get(row["node"])
        if row["name"] in wanted and boot is not None and boot.boot_id == row["boot_id"]:
            moments.setdefault(row["node"], {}).setdefault(micros(row["ts_us"]), {})[row["name"]] = row["value"]
    found = []
    for node, of_node in moments.items():
        for what, (gauge, limit, below) in LIMITS.items():
            since_us = None
            for at_us in sorted(of_node, reverse=True):
                value, most = of_node[at_us].get(gauge), of_node[at_us].get(limit)
                if value is None or most is None or (value < most if below else value > most):
                    break
                since_us = at_us
            if since_us is not None:
                text = f"publishers are blocked: its {what} is at the limit"
                found.append(Finding(BLOCKED, node, None, None, time_of(since_us), text))
    return found


def summary(found: list[Finding], known: bool) -> Values:
    """Return the section "health" of report.json; `known` is false without a snapshot."""
    status, sentence = WELL, "Nothing is wrong now."
    if found:
        status, sentence = WRONG, f"{count(len(found), 'thing', IS)} wrong now, the worst: {line(found[0])}."
    elif not known:
        status, sentence = UNKNOWN, "Whether anything is wrong now is unknown: there is no snapshot of queues."
    return {"status": status, "sentence": sentence}


def line(finding: Finding) -> str:
    """Return a finding in one line, with names first."""
    where = " ".join(filter(None, (finding.node, finding.vhost)))
    name = finding.queue
    if finding.cause == UNROUTABLE:
        name = f"{finding.exchange or '(default)'} with the key {finding.routing_key!r}"
    subject = f"{name} at {where}" if name is not None else where
    return f"{subject}: {finding.cause} since {finding.since:%Y-%m-%d %H:%M:%S} UTC ({finding.text})"


def trace_command(message: str | None, folder: str) -> str | None:
    """Return the command that shows the way of a message, given as BOOT/NUMBER."""
    return f"warren trace {shlex.quote(message)} --input {shlex.quote(folder)}" if message is not None else None


def queue_of(row: Values) -> Queue:
    return row["node"], row["vhost"], row["queue"]


def latest(turns: Values, *which: str) -> int:
    """Return the last of some turns, or the first snapshot of the queue, in microseconds."""
    return max(micros(turns[name]) for name in ("first", *which))


def last_of(event_us: int, counter: str, growth: Trend | None) -> int:
    """Return when something happened last: in the second of its event, unless its counter increased after that."""
    begin_us, end_us = growth.counted_us.get(counter, (0, 0)) if growth is not None else (0, 0)
    return end_us if begin_us > event_us + SECOND else event_us


def time_of(us: int) -> datetime:
    return datetime.fromtimestamp(us / SECOND, UTC)
