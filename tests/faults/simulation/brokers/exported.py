"""The exported events of a world, compared with what its clients have sent and received, and with themselves.

Rows name the connection, and its publishes and deliveries are logged in their order. So the number of each message of
the export is that of a message of the world, and each row is something that has happened. Each queue is played back
from its rows: a message enters it once and leaves it once, and the snapshots have what is in it.

What may be missing is what docs/analysis.md says: after the kill of a broker the last tenth of a second, after that of
a writer what it had not finished, which is counted, and after a power cut what is in no file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.faults.simulation.brokers.clients import Consumer, Peer, Published, Publisher
from tests.faults.simulation.brokers.loop import SimulatedLoop
from tests.faults.simulation.brokers.writers import Exports
from warren.plugins.message_log.export.exporter import FLUSH_S
from warren.plugins.message_log.file_format import schema

UNLOGGED_S = FLUSH_S + 0.05  # before a kill: the time between two flushes, and that of the pipe
Queues = Mapping[str, Mapping[str, object]]
KEPT = ("work", "timed", "dead", "twin")  # queues that are never deleted
LEAVING = (schema.EXPIRE, schema.DROP, schema.DEAD_LETTER)


class Event(NamedTuple):
    """A row of `events`: the columns that are checked."""

    row: int
    mono_ns: int
    event: str
    exchange: str | None
    queue: str | None
    routing_key: str | None
    msg_seq: int
    source_seq: int | None
    message_id: str | None
    identity: str | None
    size: int | None
    persistent: bool | None
    redelivered: bool
    no_ack: bool
    routed: int | None
    conn_id: str | None
    chan: int | None
    consumer_tag: str | None
    upstream: str | None
    link: str | None
    reason: str | None

    def __str__(self) -> str:
        return f"row {self.row}, {self.event} {self.reason or ''} of {self.msg_seq} in {self.queue}"


@dataclass(eq=False)
class Boot:
    """A run of a broker, and how and when it ended: "stop", "kill" or "power"."""

    broker: str
    process: SimulatedLoop
    ended: str = ""
    ended_s: float = 0.0
    asleep_from_s: float = 0.0  # when it was stopped last
    asleep_s: float = 0.0  # until then
    boot_id: str = ""
    disturbed: bool = False  # a writer was killed, or could not write
    rows: list[Event] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    footer_lost: int = 0  # records, by the last file
    numbers: dict[int, int] = field(default_factory=dict)  # of messages, by `msg_seq`

    def __str__(self) -> str:
        return f"boot {self.boot_id} of {self.broker} ({self.ended})"

    @property
    def lost(self) -> int:
        """The records that are said to be lost."""
        return max([self.footer_lost, *[snapshot.lost for snapshot in self.snapshots]])

    @property
    def whole(self) -> bool:
        """Whether no row is missing up to the last one."""
        return not self.rows or self.rows[-1].row == len(self.rows) - 1


@dataclass
class Snapshot:
    """A complete snapshot: the row before which it was taken, and its rows by queue.

    At a start, `store` identifies the log of the store, `recovered_batch` is its last batch, `settling_batch` the last
    one that settled messages, and `durable_batch` the last one that was durable at the last record of the boot before.
    Everything before the snapshot is in `last_batch` or earlier ones.
    """

    number: int
    kind: str
    row: int
    lost: int
    previous_boot: str | None
    previous_row: int | None
    durable_batch: int | None
    store: int | None
    recovered_batch: int | None
    settling_batch: int | None
    last_batch: int
    queues: dict[str, dict[str, Any]]


def check_exports(exports: Exports, boots: Sequence[Boot], peers: Iterable[Peer], queues: Queues) -> None:
    """Check what is in the files after all processes have ended, their queues empty. `queues` has their arguments."""
    events, stats = read(exports.folder, schema.EVENTS), read(exports.folder, schema.QUEUE_STATS)
    for boot in boots:
        writers = [writer for writer in exports.writers if writer.process is boot.process]
        ids = {writer.boot_id for writer in writers} - {""}
        assert len(ids) <= 1, f"a boot of {boot.broker} has the ids {ids}"
        boot.boot_id = "".join(ids)
        boot.disturbed = exports.filled or any(writer.killed for writer in writers)
        columns, lost = events.pop(boot.boot_id, ([], 0))
        boot.rows = sorted((Event(*[row[name] for name in Event._fields]) for row in columns), key=lambda one: one.row)
        boot.footer_lost = lost
        boot.snapshots = snapshots_of(stats.pop(boot.boot_id, ([], 0))[0], boot.disturbed or boot.ended != "stop")
    assert not events and not stats, f"files have rows of unknown boots: {[*events, *stats]}"
    of_processes: defaultdict[SimulatedLoop, dict[str, Peer]] = defaultdict(dict)
    for peer in peers:
        of_processes[peer.process][peer.name] = peer
    last = {boot.broker: boot for boot in boots}
    limited = any("x-max-length" in queues[queue] for queue in ("timed", "dead"))
    for boot in boots:
        check_lost(exports, boot)
        played = Playback(boot, of_processes[boot.process], exports.sample_one_in == 1)
        played.run()
        if exports.sample_one_in == 1 and boot.whole:
            played.check_complete(exports.prompt)
            if boot is last[boot.broker] and not boot.disturbed and not boot.lost:
                stop = boot.snapshots[-1].queues
                left = [queue for queue, row in stop.items() if row["ready"] or row["unacked"]]
                assert not left, f"{boot} has left messages in {left}"
                dead = [seq for seq, count in played.dead.items() if count]
                assert limited or not dead, f"{boot}: dead letters of {dead} have entered no queue"
    for broker in last:
        check_succession([boot for boot in boots if boot.broker == broker])
    if exports.sample_one_in == 1:
        check_links(boots)


def read(folder: Path, table: str) -> dict[str, tuple[list[dict[str, Any]], int]]:
    """Return the rows of a table by boot, and the lost records by the last file."""
    names = [column.name for column in schema.TABLES[table]] if table != schema.EVENTS else [*Event._fields, "boot_id"]
    found: dict[str, tuple[list[dict[str, Any]], int]] = {}
    for path in sorted(folder.glob(f"{table}/dt=*/hour=*/part-*.parquet")):
        with pq.ParquetFile(path) as file:
            known = set(file.schema_arrow.names)
            there = [name for name in names if name in known]
            rows = file.read(there, use_threads=False).to_pylist()
            lost = int((file.metadata.metadata or {})[schema.LOST_KEY.encode()])
        missing = dict.fromkeys(name for name in names if name not in there)
        for boot_id in {row["boot_id"] for row in rows}:
            before, most = found.get(boot_id, ([], 0))
            found[boot_id] = before + [missing | row for row in rows if row["boot_id"] == boot_id], max(most, lost)
    return found


def snapshots_of(rows: list[dict[str, Any]], torn: bool) -> list[Snapshot]:
    """Return the complete snapshots.

    Others may be there if a broker or writer was killed before their last row, and one which a stop has interrupted.
    """
    by_number: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_number[row["snapshot"]].append(row)
    snapshots = []
    for number, each in sorted(by_number.items()):
        closing = [row for row in each if row["queue"] is None]
        if torn and (not closing or closing[0]["queues"] > len(each) - 1):
            continue
        if not closing and by_number.get(number + 1, each)[0]["kind"] == schema.STOP:
            continue
        assert len(closing) == 1, f"snapshot {number} has {len(closing)} closing rows"
        (last,) = closing
        queues = {row["queue"]: row for row in each if row["queue"] is not None}
        assert len(queues) == last["queues"] == len(each) - 1, f"snapshot {number} has other queues than it says"
        linked = [last[name] for name in ("previous_boot", "previous_row", "previous_batch")]
        linked += [last[name] for name in ("store", "recovered_batch", "settling_batch", "last_batch")]
        snapshots.append(Snapshot(number, last["kind"], last["row"], last["lost_records"], *linked, queues))
    return snapshots


def check_lost(exports: Exports, boot: Boot) -> None:
    """Check that no row is there twice, and that missing ones are counted as lost."""
    rows = [event.row for event in boot.rows]
    assert len(set(rows)) == len(rows), f"{boot} has rows twice"
    numbers = [snapshot.number for snapshot in boot.snapshots]
    assert len(set(numbers)) == len(numbers), f"{boot} has snapshots twice"
    missing = rows[-1] + 1 - len(rows) if rows else 0
    told = boot.lost
    small = exports.buffer_bytes < 1 << 20
    assert boot.disturbed or small or not missing and not told, f"{boot}: {missing} rows are missing, {told} are lost"
    assert missing <= told or boot.ended != "stop", f"{boot}: {missing} rows are missing, {told} are said to be lost"
    stops = [snapshot for snapshot in boot.snapshots if snapshot.kind == schema.STOP]
    for stop in stops:
        assert stop.row == len(rows) + stop.lost, f"{boot}: {len(rows)} of {stop.row} rows, {stop.lost} are lost"
    assert stops or boot.ended != "stop" or boot.disturbed, f"{boot} has no snapshot of its stop"
    if boot.ended == "stop" and not boot.disturbed:
        assert boot.snapshots and boot.snapshots[0].kind == schema.START, f"{boot} has no snapshot of its start"


class Playback:
    """The rows of a boot from the first to the one before the first gap, one after the other."""

    def __init__(self, boot: Boot, peers: dict[str, Peer], complete: bool) -> None:
        """`complete`: all messages are in the log, not a sample of them."""
        self.boot = boot
        self.peers = peers
        self.complete = complete
        self.ready: defaultdict[str, set[int]] = defaultdict(set)
        self.unacked: dict[tuple[str, int], tuple[str, int]] = {}  # with connection and channel
        self.nacked: set[tuple[str, int]] = set()
        self.gone: set[tuple[str, int]] = set()
        self.older: Counter[str] = Counter()  # messages that have no row yet
        self.sizes: dict[int, int] = {}
        self.routes: dict[int, int] = {}  # left of publishes, by message
        self.dead: Counter[int] = Counter()  # dead letters that no queue got yet
        self.publishes: dict[int, tuple[str, int]] = {}  # connection and confirm number of messages
        self.published: Counter[str] = Counter()  # by connection
        self.refused: set[int] = set()
        self.confirmed: dict[int, str] = {}
        self.delivered: Counter[tuple[str, int]] = Counter()  # by connection and channel
        self.tags: dict[tuple[str, int, int], int] = {}  # the last one of a message, by connection and channel
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of events, by queue
        self.known = bool(boot.snapshots) and boot.snapshots[0].kind == schema.START

    def run(self) -> None:
        if self.known:
            start = self.boot.snapshots[0]
            assert start.row == 0, f"{self.boot} has rows before its start"
            for queue, row in start.queues.items():
                self.older[queue] = row["ready"]
        snapshots = list(reversed(self.boot.snapshots))
        end = 0
        for event in self.boot.rows:
            if event.row != end:
                break
            while snapshots and snapshots[-1].row <= end:
                self.compare(snapshots.pop())
            end += 1
            try:
                self.play(event)
            except AssertionError as error:
                raise AssertionError(f"{self.boot}, {event}: {error}") from error
        while snapshots and snapshots[-1].row <= end:
            self.compare(snapshots.pop())

    def compare(self, snapshot: Snapshot) -> None:
        """Compare a snapshot with what is in the queues."""
        if not (self.known and self.complete):
            return
        unacked = Counter(queue for queue, _ in [*self.unacked, *self.nacked])
        for queue in sorted({*self.ready, *unacked, *self.older, *snapshot.queues}):
            row = snapshot.queues.get(queue, {"ready": 0, "unacked": 0})
            logged = len(self.ready[queue]) + self.older[queue], unacked[queue]
            counted = row["ready"], row["unacked"]
            name = f"{self.boot}: {queue} in snapshot {snapshot.number}"
            assert logged == counted, f"{name} has {counted} messages, ready and unacked, by its rows {logged}"
            if queue in KEPT and queue in snapshot.queues:
                counts, start = self.counts[queue], self.boot.snapshots[0].queues.get(queue, {})
                expected = {
                    "published": counts[schema.ENQUEUE],
                    "delivered": counts[schema.DELIVER],
                    "redelivered": counts["redelivered"],
                    "acked": counts[schema.ACK] + counts[schema.FED_OUT],
                }
                found = {key: row[key] - start.get(key, 0) for key in expected}
                assert found == expected, f"{name} counts {found}, its rows are {expected}"

    def play(self, event: Event) -> None:
        kind, seq, queue = event.event, event.msg_seq, event.queue
        assert seq > 0, "the message has no number"
        if kind != schema.CONFIRM and event.reason != "deleted":  # of those on the disk, the average is logged
            assert self.sizes.setdefault(seq, event.size or 0) == event.size, "another size"
        if queue is None:
            {schema.PUBLISH: self.publish, schema.FED_IN: self.bring, schema.CONFIRM: self.confirm}[kind](event)
            return
        self.counts[queue][kind] += 1
        self.counts[queue]["redelivered"] += event.redelivered
        copy = queue, seq
        if kind == schema.ENQUEUE:
            self.enqueue(event, copy)
            return
        if kind == schema.UNROUTED:
            assert self.dead[seq] > 0, f"{seq} is no dead letter"
            self.dead[seq] -= 1
            return
        if copy not in self.gone and not self.has(copy):
            assert self.complete, "it never entered the queue"
            assert self.older[queue] > 0 or not self.known, "the queue has no such message"
            self.older[queue] -= 1
            self.ready[queue].add(seq)
        assert copy not in self.gone, "it has left the queue"
        if kind == schema.DELIVER:
            self.deliver(event, copy)
        elif kind in (schema.ACK, schema.FED_OUT):
            self.settle(event, copy, "ack")
            self.gone.add(copy)
        elif kind == schema.NACK:
            self.settle(event, copy, "requeue", "reject")
            self.nacked.add(copy)
        elif kind == schema.REQUEUE:
            if event.reason == "channel":
                assert self.unacked.pop(copy, None), "it was not delivered"
            else:
                assert copy in self.nacked, "nobody has requeued it"
                self.nacked.remove(copy)
            self.ready[queue].add(seq)
        else:
            assert kind in LEAVING, "nothing does this"
            self.leave(event, copy)

    def has(self, copy: tuple[str, int]) -> bool:
        """Whether the message is in the queue, ready or not."""
        return copy[1] in self.ready[copy[0]] or copy in self.unacked or copy in self.nacked

    def publish(self, event: Event) -> None:
        """A client's publish: the next one of its connection."""
        peer = self.peers.get(event.conn_id or "")
        assert isinstance(peer, Publisher), f"nobody publishes at {event.conn_id}"
        if self.complete:
            number = self.published[peer.name] = self.published[peer.name] + 1
        else:
            same = [place for place, one in enumerate(peer.published, 1) if event.message_id == str(one.number)]
            number = same[0] if event.message_id else 0
        assert number <= len(peer.published), "there are more publishes than the client has sent"
        if number:
            sent = peer.published[number - 1]
            address = event.exchange or "", event.routing_key or ""
            said = Published(sent.number, *address, event.size or 0, event.message_id)
            assert said == sent, f"the client has published {sent}"
            self.boot.numbers[event.msg_seq] = sent.number
        assert event.persistent, "it is transient"
        self.arrive(event, number)

    def arrive(self, event: Event, number: int) -> None:
        assert event.msg_seq not in self.publishes, "it is published twice"
        self.publishes[event.msg_seq] = event.conn_id or "", number
        self.routes[event.msg_seq] = event.routed or 0
        assert event.reason is None or not event.routed, "it has a reason and queues"
        if event.reason == "refused":
            self.refused.add(event.msg_seq)

    def bring(self, event: Event) -> None:
        """A message from a link."""
        assert event.identity and event.upstream and event.link, "the link or the identity is missing"
        self.arrive(event, 0)

    def confirm(self, event: Event) -> None:
        seq = event.msg_seq
        assert seq in self.publishes and self.publishes[seq][0] == event.conn_id, "it is not published there"
        assert seq not in self.confirmed, "it is confirmed twice"
        assert self.routes[seq] <= 0, f"it is confirmed before it is in {self.routes[seq]} queues"
        reason = self.confirmed[seq] = event.reason or ""
        assert reason == "nack" or seq not in self.refused, "a refused message is confirmed"
        name, number = self.publishes[seq]
        peer = self.peers.get(name)
        if isinstance(peer, Publisher) and number in peer.answers:
            assert peer.answers[number][0] == (not reason), "the client has received the opposite"

    def enqueue(self, event: Event, copy: tuple[str, int]) -> None:
        queue, seq = copy
        assert not self.has(copy) and copy not in self.gone, "it enters the queue again"
        if event.reason == "dlx":
            source = event.source_seq
            if source is not None:
                assert self.dead[source] > 0, f"{source} is no dead letter"
                self.dead[source] -= 1
                if source in self.boot.numbers:
                    self.boot.numbers[seq] = self.boot.numbers[source]
        else:
            assert not event.reason, "it comes from nowhere"
            assert seq in self.routes, "it was not published"
            self.routes[seq] -= 1
            assert self.routes[seq] >= 0, "it enters more queues than its publish says"
        self.ready[queue].add(seq)

    def deliver(self, event: Event, copy: tuple[str, int]) -> None:
        queue, seq = copy
        assert seq in self.ready[queue], "it is not ready"
        assert not event.reason, "it is no delivery to a consumer"
        self.ready[queue].remove(seq)
        name, chan = event.conn_id or "", event.chan or 0
        if event.no_ack:
            assert event.link is not None, "the consumer acknowledges"
            self.gone.add(copy)
        else:
            self.unacked[copy] = name, chan
        if event.link is not None:
            assert event.link == queue, "the link has another name"
            return
        peer = self.peers.get(name)
        assert isinstance(peer, Consumer), f"nobody consumes at {name}"
        if not self.complete:
            return
        tag = self.delivered[name, chan] = self.delivered[name, chan] + 1
        self.tags[name, chan, seq] = tag
        received = peer.received.get(chan, [])
        if tag > len(received):
            return  # its connection broke before
        got = received[tag - 1]
        said = queue, event.consumer_tag, event.size, event.redelivered
        assert said == (got.queue, got.consumer, got.size, got.redelivered), f"the client has received {got}"
        number = self.boot.numbers.setdefault(seq, got.number)
        assert number == got.number, f"the client has received {got.number}, and the row is about {number}"

    def settle(self, event: Event, copy: tuple[str, int], *choices: str) -> None:
        """A client or a link has settled the message."""
        name, chan = self.unacked.pop(copy, ("", 0))
        assert name, "it was not delivered"
        assert (name, chan) == (event.conn_id, event.chan), f"it was delivered to {name}, channel {chan}"
        assert (event.link is not None) == (event.event == schema.FED_OUT), "links settle by fed_out"
        if event.link is not None or not self.complete:
            return
        peer = self.peers.get(name)
        assert isinstance(peer, Consumer), f"nobody consumes at {name}"
        settled = peer.settled.get((chan, self.tags[name, chan, event.msg_seq]))
        assert settled in choices, f"the client has done {settled}"

    def leave(self, event: Event, copy: tuple[str, int]) -> None:
        queue, seq = copy
        kind, reason = event.event, event.reason
        if copy in self.nacked:
            self.nacked.remove(copy)
            assert reason in ("rejected", "delivery_limit", "deleted"), "it was rejected"
        elif reason == "deleted" and copy in self.unacked:
            del self.unacked[copy]
        else:
            assert seq in self.ready[queue], "it is not ready"
            assert reason in ("expired", "maxlen", "deleted", "purged"), "nobody has rejected it"
            self.ready[queue].remove(seq)
        if reason == "expired":
            assert queue == "timed", "it has no time to live"
        if reason == "deleted":
            assert queue not in KEPT, "nobody deletes it"
        dead_letters = queue == "timed" and reason != "deleted"
        assert kind == (schema.DEAD_LETTER if dead_letters else schema.DROP), "the queue has other rules"
        if kind == schema.DEAD_LETTER:
            self.dead[seq] += 1
        self.gone.add(copy)

    def check_complete(self, prompt: bool) -> None:
        """Check that what clients have received is in the log."""
        boot = self.boot
        if boot.ended == "power" or boot.disturbed or not boot.ended:
            return
        if boot.ended == "kill" and not prompt:
            return
        if boot.lost:
            return
        until_s = boot.ended_s if boot.ended == "stop" else boot.ended_s - UNLOGGED_S
        if boot.ended == "kill" and boot.asleep_s > until_s:  # it flushed nothing after that
            until_s = min(until_s, boot.asleep_from_s - UNLOGGED_S)
        answered = {self.publishes[seq]: reason for seq, reason in self.confirmed.items()}
        for name, peer in self.peers.items():
            if isinstance(peer, Publisher):
                for number, (confirmed, at_s) in peer.answers.items():
                    answer = answered.get((name, number))
                    said = "confirmed" if confirmed else "nacked"
                    what = f"{boot}: message {peer.published[number - 1].number} was {said} at {at_s - 1000:.4f}"
                    assert at_s > until_s or answer is not None, f"{what}, and is not in the log"
            if isinstance(peer, Consumer):
                for chan, received in peer.received.items():
                    logged = self.delivered[name, chan]
                    missing = [one for one in received[logged:] if one.at_s <= until_s]
                    assert not missing, f"{boot}: deliveries are not in the log: {missing}"
        if boot.ended == "stop":
            left = {queue: len(seqs) for queue, seqs in self.ready.items() if seqs}
            assert not self.unacked and not self.nacked, f"{boot}: {[*self.unacked, *self.nacked]} are unacknowledged"
            unrouted = [seq for seq, count in self.routes.items() if count]
            assert not unrouted, f"{boot}: {unrouted} have entered fewer queues than their publishes say, {left} left"


def check_succession(boots: Sequence[Boot]) -> None:
    """Check that the boots of a broker name each other, and that a clean stop has left what the next start finds."""
    before: Boot | None = None
    earlier: set[str | None] = {None}
    stores: set[int] = set()
    for boot in boots:
        start = next((each for each in boot.snapshots if each.kind == schema.START), None)
        if start is not None and start.store is not None:
            stores.add(start.store)
            assert len(stores) == 1, f"{boot} has found another store"
            durable, last = start.durable_batch or 0, start.recovered_batch or 0
            # The writer of a boot that was killed soon may lock the state after that of the next boot.
            in_order = start.previous_boot in earlier
            assert durable <= last or not in_order, f"{boot} has found batches up to {last}, of {durable} of {before}"
        clean = before is not None and before.ended == "stop" and not before.disturbed
        if start is not None and before is not None and clean and not boot.disturbed:
            stop = before.snapshots[-1]
            linked = start.previous_boot, start.previous_row
            assert linked == (before.boot_id, stop.row), f"{boot} names {linked} as the boot before, not {before}"
            assert (start.settling_batch or 0) <= stop.last_batch, (
                f"{boot} has found more settlements than {before} left"
            )
            found = {queue: row["recovered"] for queue, row in start.queues.items() if row["recovered"]}
            left = {queue: row["ready"] + row["unacked"] for queue, row in stop.queues.items()}
            expected = {queue: count for queue, count in left.items() if count}
            outbox = found.get("timed", 0) - expected.get("timed", 0)  # dead letters that were not confirmed
            if outbox > 0:
                expected["timed"] = found["timed"]
            assert found == expected, f"{boot} has found {found}, and {before} has left {expected}"
        before = boot
        earlier.add(boot.boot_id)


def check_links(boots: Sequence[Boot]) -> None:
    """Check that links have brought what the logs of their upstreams say that they took, and nothing else."""
    of_numbers: dict[int, str] = {}
    for boot in boots:
        for event in boot.rows:
            if event.identity is None or event.msg_seq not in boot.numbers:
                continue
            number = boot.numbers[event.msg_seq]
            same = of_numbers.setdefault(number, event.identity)
            assert same == event.identity, f"{boot}, {event}: message {number} has another identity elsewhere, {same}"
    if not all(boot.ended == "stop" and not boot.disturbed and boot.whole and not boot.lost for boot in boots):
        return
    taken = {event.identity for boot in boots for event in boot.rows if event.event == schema.FED_OUT}
    brought = {event.identity for boot in boots for event in boot.rows if event.event == schema.FED_IN}
    assert taken <= brought, f"links took {taken - brought} and brought them nowhere"
    delivered: defaultdict[str, set[int]] = defaultdict(set)  # to links, by broker; 0: the number is not known
    for boot in boots:
        links = [event for event in boot.rows if event.event == schema.DELIVER and event.link is not None]
        delivered[boot.broker].update(boot.numbers.get(event.msg_seq, 0) for event in links)
    for boot in boots:
        for event in boot.rows:
            number = boot.numbers.get(event.msg_seq, 0)
            if event.event == schema.FED_IN and number:
                there = delivered[event.upstream or ""]
                assert number in there or 0 in there, f"{boot}, {event}: {number} was not delivered to the link"
