"""Processes with a journal on a simulated disk, one after the other, each from a start to a more or less sudden end.

Everything follows from the seed. The loop's calls fall between any two calls of the worker to the disk, as if the
worker were a thread.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, cast

from tests.faults.simulation.backups import Backup
from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.metadata import MemoryMetadata
from tests.faults.simulation.model import (
    ALWAYS,
    NEVER,
    Content,
    Entry,
    LongCommit,
    Queue,
    attempts_of,
    check,
    check_attempts,
    content,
)
from tests.faults.simulation.workers import Workers
from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages import message_state
from warren.broker.core.messages.journal_port import EXHAUSTED, RecoveredQueue
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage import compaction, segment_reader
from warren.broker.storage.archive import NoBackup
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

QUEUES = 10
BODY_BYTES = (0, 1, 40, 100, 300, 513, 1500)
SEGMENT_BYTES = (300, 1000, 3000, 10_000, 50_000)
SLICE_BYTES = (200, 1000, 1 << 18)
READING = ("open", "read")  # calls of the loop
READ_ERRORS = (errno.EIO, errno.EIO, errno.ENOSPC, *EXHAUSTED)
BACKING_UP = 0.25  # the share of worlds that take backups
ADDRESSES = (("", "q"), ("amq.topic", "a.b"), ("x" * 255, "\udcff" * 255), ("", ""))


class World:
    """The state that outlives a process: the disk, the metadata, and all messages that were ever published."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(self.random)
        self.metadata = MemoryMetadata()
        self.queues: dict[int, Queue] = {}
        self.contents: list[Content] = []
        self.numbers: dict[Content, int] = {}
        self.next_queue = 1
        self.commits: list[LongCommit] = []  # of the last process
        self.segment_bytes = self.random.choice(SEGMENT_BYTES)
        self.trace: list[str] = []
        own = Random(f"backups {seed}")  # of its own, so that other worlds stay as they are
        self.backups = own if own.random() < BACKING_UP else None
        # Chosen once for all processes.
        compaction.SLICE_BYTES = self.random.choice(SLICE_BYTES)
        segment_reader.READ_BYTES = self.random.choice(SLICE_BYTES)

    def message(self, persistent: bool = True) -> tuple[int, Message]:
        """Return a new message and its number."""
        random = self.random
        number = len(self.contents)
        body = b"%d:" % number + random.randbytes(random.choice(BODY_BYTES))
        exchange, key = random.choice(ADDRESSES)
        frames = content_frames(channel := random.randrange(3), b"\x00\x00", body)
        largest = random.choice((0, len(frames)))
        message = Message(RoutingAddress(exchange, key), frames, channel, len(body), largest, persistent)
        if not random.randrange(4):
            message.state = message_state.MessageState(
                level=random.choice((0, 0, 1, 255)),
                deadline_ms=random.choice((0, 0, 1, 1 << 41)),
                attempts=random.choice((0, 0, 1, 20)),
                dead_lettered=random.choice((0, 0, 1, 2)),
            )
        return self._made(number, message)

    def short_message(self) -> tuple[int, Message]:
        """Return a new message of a few bytes and its number."""
        number = len(self.contents)
        frames = content_frames(0, b"\x00\x00", body := b"%d" % number)
        return self._made(number, Message(RoutingAddress("", "q"), frames, 0, len(body), 0, True))

    def _made(self, number: int, message: Message) -> tuple[int, Message]:
        self.contents.append(content(message))
        self.numbers[self.contents[-1]] = number
        return number, message


class JournalProcess:
    """One process: `start` recovers and checks, `run` works, `finish` stops it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.journal = Journal(world.disk, cast("Metadata", world.metadata), world.segment_bytes)
        self.workers = Workers(self.journal, world.random, self.trace, self._committed, self._delayed)
        self.expected: list[int] = []  # tickets that wait for a notification
        self.orphans: list[tuple[int, Entry]] = []
        self.pages: list[Entry] = []  # paged out, of no durable queue
        self._quiet = False  # the loop does nothing any more
        self._failing = 0.0  # the probability that a read of the loop fails
        self._short = 0.0  # and that there is no descriptor for a call of the worker
        self._backup: Backup | None = None  # under way
        self._errors = 0  # of the disk, when it began

    def trace(self, line: str) -> None:
        self.world.trace.append(line)

    # The start

    def start(self, durable: int) -> None:
        """Recover, and compare the result with what was promised when `durable` was reached."""
        world = self.world
        found = self.journal.recover(set(world.metadata.queues), world.metadata.highest)
        for line in self.journal.report:
            self.trace(f"recovered with: {line}")
            assert "of a torn end cut off" in line or line.startswith("checkpoint"), "a stop is no damage"
        assert not found.keys() - world.queues.keys(), "a queue that was never declared"
        commits, world.commits = world.commits, []
        numbers_of: dict[int, list[int]] = {}
        restored: list[tuple[Queue, list[int], list[Message], RecoveredQueue]] = []
        for queue in world.queues.values():
            there = queue.number in world.metadata.queues
            if queue.deleted is None or queue.deleted > durable:
                assert there or queue.declared > durable or queue.deleted is not None, f"queue {queue.number} is lost"
            pages = found.get(queue.number) or RecoveredQueue()
            assert there or not len(pages), f"queue {queue.number} is deleted, its messages are not"
            messages = [each for each in self.journal.read(list(pages), queue.number) if each is not None]
            assert len(messages) == len(pages), f"queue {queue.number} has unreadable messages"
            numbers = [world.numbers.get(content(message), -1) for message in messages]
            self.trace(f"recovered queue {queue.number}: {numbers}")
            check(queue, numbers, durable)
            if there:
                numbers_of[queue.number] = numbers
            restored.append((queue, numbers, messages, pages))
        for long in commits:
            self.trace(long.check(numbers_of, durable))
        for queue, numbers, messages, pages in restored:
            self._restore(queue, numbers, messages, durable, pages)
        for number in [number for number in world.queues if number not in world.metadata.queues]:
            del world.queues[number]
        for queue in world.queues.values():
            queue.declared, queue.deleted = ALWAYS, None
        world.disk.before = self._between
        self.journal.reader.now_s = lambda: len(world.trace)

    def _restore(
        self, queue: Queue, numbers: list[int], messages: list[Message], durable: int, pages: RecoveredQueue
    ) -> None:
        """Set the queue to what was recovered; the states of messages must be those they had."""
        before = {entry.number: entry for entry in queue.entries}
        queue.entries = []
        for number, message in zip(numbers, messages, strict=True):
            check_attempts(before[number], attempts_of(message), durable)
            queue.entries.append(Entry(number, ALWAYS, message.id, None))
            queue.entries[-1].attempts_recorded = [(ALWAYS, attempts_of(message))]
        states = [message.state or message_state.MessageState() for message in messages]
        levels = bytes(state.level for state in states)
        assert pages.levels == (levels if any(levels) else b"")
        deadlines = [state.deadline_ms for state in states]
        assert list(pages.deadlines_ms or []) == (deadlines if any(deadlines) else [])

    # The work

    def run(self, steps: int) -> None:
        """Take random steps. Raises Stopped, or OSError, like the disk."""
        for _ in range(steps):
            self.workers.step() if self.random.random() < 0.4 else self._work()

    def empty(self) -> None:
        """Settle all messages and change the metadata, after which the log may have no file any more."""
        self._quiet = True
        for long in self._open():
            self._end(long)
        alive = [queue for queue in self.world.queues.values() if queue.deleted is None]
        held = [(queue.number, entry) for queue in alive for entry in queue.held]
        for number, entry in [*held, *self.orphans, *[(0, entry) for entry in self.pages]]:
            self.journal.settle(number, entry.id)
            entry.settled = self.journal.ticket()
        self.trace(f"settle all in {self.journal.ticket()}")
        self.orphans, self.pages = [], []
        for _ in range(2):
            for _ in range(20):
                self.workers.step()
            self._declare(alive)
        self._quiet = False

    def check_index(self) -> None:
        """Settle all messages, and check that the index has nothing of the segments that are deleted then."""
        self._failing = self._short = 0.0
        self.world.disk.limit_bytes = None
        self.empty()
        self._quiet = True
        for _ in range(3):  # batches, with which segments are deleted
            _, message = self.world.short_message()
            self.journal.append([], [message])
            self.journal.settle(0, message.id)
            self.workers.finish()
        segments = set(self.journal.segments)
        assert len(segments) <= 2, f"without messages the log has the segments {segments}"  # one may just have begun
        blocks = [{part.number for part in block.parts} for block in self.journal.index]
        assert all(numbers and numbers <= segments for numbers in blocks), f"the log: {segments}, the index: {blocks}"

    def delete_and_publish(self) -> None:
        """Delete a queue and publish a short message to another one in a batch of their own, until that is durable."""
        self._quiet = True
        self.workers.finish()
        alive = [queue for queue in self.world.queues.values() if queue.deleted is None]
        if len(alive) > 1:
            self._delete(alive)
            queue = next(queue for queue in alive if queue.deleted is None)
            number, message = self.world.short_message()
            self._append([queue], [(number, message)])
            self.workers.finish()
        self._quiet = False

    def finish(self) -> None:
        """Stop cleanly: nothing new happens, and all that has gathered becomes durable."""
        self.world.disk.limit_bytes = None
        self._quiet = True
        self._failing = self._short = 0.0
        self.workers.finish()
        while self._backup is not None:
            self._read_backup(self._backup)
            self.workers.finish()
        self.journal.close()
        self.world.metadata.sync()  # as closing the store does
        self.workers.synced = self.journal.durable
        self.trace(f"closed at {self.journal.durable}")

    def leave(self) -> None:
        """Note that the process has ended."""
        if self._backup is not None:
            self._backup.leave()

    def forget_unsynced(self, power: bool) -> None:
        """Forget declarations that a power cut may have lost, as no durable message depends on them."""
        for queue in self.world.queues.values():
            if power and queue.declared > self.workers.synced:
                queue.declared = NEVER

    def _between(self, what: str, name: str) -> None:
        """Run the loop and the other worker before this call of a worker; or make a call of the loop itself fail."""
        workers = self.workers
        if not workers.active and what in READING and self.random.random() < self._failing:
            raise OSError(self.random.choice(READ_ERRORS), "injected", name)
        if workers.active and what != "sync" and self.random.random() < self._short:
            raise OSError(self.random.choice(EXHAUSTED), "injected", name)
        if workers.active and not self._quiet:
            workers.active = False
            while not self.random.randrange(3):
                self._work() if self.random.random() < 0.6 else workers.step()
            workers.active = True

    def _work(self) -> None:
        alive = [queue for queue in self.world.queues.values() if queue.deleted is None]
        kinds: list[tuple[int, Callable[[list[Queue]], object]]] = [
            (40, self._publish),
            (40, self._settle),
            (30, self._transact),
            (8, self._read),
            (8, self._count),
            (4, self._declare),
            (2, self._delete),
            (3, self._settle_orphan),
            (5, self._page),
            (3, self._wait),
            (3, self._sync),
            (1, self._fill),
            (2, self._refuse),
            (1, self._run_short),
        ]
        if len(alive) < 2:
            self._declare(alive)
            return
        weights = [weight for weight, _ in kinds]
        self.random.choices(kinds, weights)[0][1](alive)
        if self.world.backups is not None:
            self._back_up(self.world.backups)

    def _declare(self, alive: list[Queue]) -> None:
        if len(alive) < QUEUES:
            number = self.world.next_queue
            self.world.next_queue += 1
            self.journal.change(Change(True, StoredQueue("/", f"q{number}", number, False, b"")))
            self.world.queues[number] = Queue(number, self.journal.ticket())
            self.trace(f"declare {number} in {self.journal.ticket()}")

    def _delete(self, alive: list[Queue]) -> None:
        """Purge ready messages; delivered ones are settled some time later, without a record."""
        queue = self.random.choice(alive)
        self.journal.queue_deleted(queue.number)
        for entry in queue.held:
            if self.random.random() < 0.7:
                self.journal.settle(queue.number, entry.id)
                entry.settled = self.journal.ticket()
            else:
                self.orphans.append((queue.number, entry))
        self.journal.change(Change(False, StoredQueue("/", f"q{queue.number}", queue.number, False, b"")))
        queue.deleted = self.journal.ticket()
        self.trace(f"delete {queue.number} in {queue.deleted}")

    def _settle_orphan(self, alive: list[Queue]) -> None:
        if self.orphans:
            number, entry = self.orphans.pop(self.random.randrange(len(self.orphans)))
            self.journal.settle(number, entry.id)

    def _page(self, alive: list[Queue]) -> None:
        """Page messages out that do not survive a restart, or read them back and settle them."""
        if self.random.random() < 0.5:
            made = [self.world.message(self.random.random() < 0.5) for _ in range(self.random.choice((1, 5)))]
            self.journal.append([], [message for _, message in made])
            self.pages += [Entry(number, ALWAYS, message.id, message) for number, message in made]
            for entry in self.random.sample(self.pages, self.random.randrange(3) * len(self.pages) // 4):
                assert self.journal.hold(entry.id), f"{entry.number} is gone"
                self.pages.append(Entry(entry.number, ALWAYS, entry.id, entry.message))  # of another queue
            self.trace(f"page {[number for number, _ in made]}: ids {[message.id for _, message in made]}")
        elif self.pages:
            start = self.random.randrange(len(self.pages))
            entries = self.pages[start : start + self.random.choice((1, 3))]
            self._take(entries, 0)
            if self.random.random() < 0.8:
                del self.pages[start : start + len(entries)]
                for entry in entries:
                    self.journal.settle(0, entry.id)

    def _open(self) -> list[LongCommit]:
        return [long for long in self.world.commits if long.ended == NEVER]

    def _end(self, long: LongCommit) -> None:
        self.journal.end(long.commit)
        long.end(self.journal.ticket())
        self.trace(f"end commit {long.commit.number} in {long.ended}")

    def _transact(self, alive: list[Queue]) -> None:
        """Begin a commit over several batches, or do a part of one."""
        commits = self._open()
        if not commits or len(commits) < 3 and self.random.random() < 0.2:
            long = LongCommit()
            self.world.commits.append(long)
            self.journal.keep_open(long.commit)
            return
        long = self.random.choice(commits)
        self.trace(f"in commit {long.commit.number}:")
        self.journal.enter(long.commit)
        choice = self.random.random()
        if choice < 0.5 and not long.commit.settles:
            stored = self._publish(alive)
            for _, entry in stored:
                entry.appended = NEVER
            long.stored += stored
        elif choice < 0.8:
            if not long.commit.settles:
                self.journal.begin_settling(long.commit)
            settled = self._settle(alive)
            for _, entry in settled:
                entry.settled = NEVER
            long.settled += settled
        elif choice < 0.9:
            self._end(long)
        if self.random.random() < 0.3:  # others
            self.trace("and in none:")
            before = self.journal.enter(None)
            self._publish(alive) if self.random.random() < 0.5 else self._settle(alive)
            self.journal.enter(before)
        self.journal.enter(None)

    def _publish(self, alive: list[Queue]) -> list[tuple[Queue, Entry]]:
        count = 1 if self.random.random() < 0.6 else self.random.randint(1, len(alive))
        made = [self.world.message() for _ in range(self.random.choice((1, 1, 2, 5)))]
        if any(message.state is not None for _, message in made):
            count = 1
        return self._append(self.random.sample(alive, count), made)

    def _append(self, queues: list[Queue], made: list[tuple[int, Message]]) -> list[tuple[Queue, Entry]]:
        self.journal.append([queue.number for queue in queues], [message for _, message in made])
        ticket = self.journal.ticket()
        for queue in queues:
            for number, message in made:
                queue.entries.append(Entry(number, ticket, message.id, message))
                queue.entries[-1].attempts_recorded = [(ticket, attempts_of(message))]
        numbers, names = [number for number, _ in made], [queue.number for queue in queues]
        self.trace(f"publish {numbers} to {names} in {ticket}: ids {[message.id for _, message in made]}")
        return [(queue, entry) for queue in queues for entry in queue.entries[-len(made) :]]

    def _settle(self, alive: list[Queue]) -> list[tuple[Queue, Entry]]:
        queue = self.random.choice(alive)
        held = queue.held
        entries: list[Entry] = []
        if held:
            at = 0 if self.random.random() < 0.7 else self.random.randrange(len(held))
            entries = held[at : at + self.random.choice((1, 3, 8))]
            messages = [entry.message for entry in entries if entry.message is not None]
            together = len(messages) == len(entries) and self.random.random() < 0.5
            if together:
                self.journal.settle_many(queue.number, messages)
            for entry in entries:
                if not together:
                    self.journal.settle(queue.number, entry.id)
                entry.settled = self.journal.ticket()
                self.trace(f"settle {entry.number} of {queue.number} in {entry.settled}: id {entry.id}")
        return [(queue, entry) for entry in entries]

    def _read(self, alive: list[Queue]) -> None:
        """Read some of a queue's messages into memory; they may have been there."""
        queue = self.random.choice(alive)
        held = queue.held
        if held:
            start = self.random.randrange(len(held))
            self._take(held[start : start + self.random.randint(1, 10)], queue.number)

    def _count(self, alive: list[Queue]) -> None:
        """Count delivery attempts of requeued messages."""
        queue = self.random.choice(alive)
        held = queue.held
        if held:
            start = self.random.randrange(len(held))
            for entry in held[start : start + self.random.randint(1, 3)]:
                attempts = entry.attempts + 1
                self.journal.record_delivery_count(queue.number, entry.id, attempts)
                entry.attempts_recorded.append((self.journal.ticket(), attempts))
                self.trace(f"count {attempts} for {entry.number} of {queue.number} in {self.journal.ticket()}")

    def _take(self, entries: list[Entry], queue: int) -> None:
        lines, errors = len(self.journal.report), self.journal.reader.errors
        messages = self.journal.read_all([entry.id for entry in entries], queue)
        for line in self.journal.report[lines:]:
            self.trace(f"while reading: {line}")
            assert ".log" in line and ("offset" in line and "cannot be read" in line or "not read for now" in line)
        messages += [None] * (len(entries) - len(messages))  # no descriptors or memory: not tried
        refused = self._failing or self.journal.reader.errors > errors  # or the one failure that ends a process
        assert None not in messages or refused, "a message of an intact disk is unreadable"
        for entry, message in zip(entries, messages, strict=True):
            if message is None:  # it stays there, and will be read another time
                continue
            assert content(message) == self.world.contents[entry.number], f"message {entry.number} is read wrongly"
            assert not queue or attempts_of(message) == entry.attempts, f"message {entry.number} is counted wrongly"
            entry.message = None
            assert message.id == entry.id, "an id is for life"

    def _wait(self, alive: list[Queue]) -> None:
        ticket = self.journal.ticket()
        if ticket > self.journal.durable:
            self.expected.append(ticket)

            def notified() -> None:
                assert self.journal.durable >= ticket, "notified too early"
                assert self.expected.pop(0) == ticket, "notified out of order"

            self.journal.when_durable(ticket, notified)

    def _sync(self, alive: list[Queue]) -> None:
        if self.journal.unsynced():
            self.journal.sync()

    def _fill(self, alive: list[Queue]) -> None:
        """Let other files leave the disk little room."""
        disk = self.world.disk
        disk.limit_bytes = disk.used_bytes + self.random.randrange(2000)
        self.trace(f"room for {disk.free_bytes()} bytes")

    def _refuse(self, alive: list[Queue]) -> None:
        """Make reads of the disk fail, or succeed again."""
        self._failing = self.random.choice((0.0, 0.0, 0.1, 0.5, 1.0))
        self.trace(f"reads fail in {self._failing} of all cases")

    def _run_short(self, alive: list[Queue]) -> None:
        """Take descriptors from the system, or return them."""
        self._short = self.random.choice((0.0, 0.0, 0.1, 0.5))
        self.trace(f"no descriptor in {self._short} of all cases")

    # Backups

    def _back_up(self, random: Random) -> None:
        """Begin a backup now and then, and read it while the process works."""
        if self._backup is None:
            if random.random() < 0.1:
                self.trace("a backup begins")
                self._backup, self._errors = Backup(self.journal), self.world.disk.errors
        elif self._backup.begun and random.random() < 0.7:
            self._read_backup(self._backup)

    def _read_backup(self, backup: Backup) -> None:
        assert self.journal.durable >= self.workers.moment, "its moment is not durable"
        backup.read()
        if backup.ended:
            self._backup = None
            self._check_backup(backup, self.workers.moment)

    def _check_backup(self, backup: Backup, moment: int) -> None:
        """Compare what a backup has with all that the batches up to its moment have stored, and nothing later."""
        world, report = self.world, list[str]()
        assert world.backups is not None
        try:
            disk, metadata = backup.restored(world.backups, MemoryMetadata, report)
        except NoBackup as fault:
            assert backup.lost or world.disk.errors > self._errors, f"a backup was given up: {fault}"
            self.trace(f"a backup was given up: {fault}")
            return
        self.trace(f"a backup of {moment}")
        journal = Journal(disk, cast("Metadata", metadata), world.segment_bytes)
        found = journal.recover(set(metadata.queues), metadata.highest)
        news = [line for line in [*report, *journal.report] if line not in self.journal.report]
        assert not news, f"damage in a backup: {news}"
        there = [each for each in world.queues.values() if each.declared <= moment < (each.deleted or NEVER)]
        assert metadata.queues == {queue.number for queue in there}, (
            f"a backup of {moment} has queues {metadata.queues}"
        )
        assert found.keys() <= metadata.queues
        for queue in there:
            messages = journal.read_all(list(found.get(queue.number) or ()), queue.number)
            entries = [each for each in queue.entries if each.appended <= moment < (each.settled or NEVER)]
            numbers = [world.numbers[content(message)] if message is not None else -1 for message in messages]
            assert numbers == [entry.number for entry in entries], f"queue {queue.number} of a backup of {moment}"
            for entry, message in zip(entries, messages, strict=True):
                check_attempts(entry, attempts_of(message), moment) if message is not None else None

    # Group commit

    def _delayed(self, error: OSError) -> None:
        if self.random.random() < 0.5:
            self.world.disk.limit_bytes = None

    def _committed(self) -> None:
        assert not self.expected or self.expected[0] > self.journal.durable, "not notified"


def stop_after(disk: SimulatedDisk, error: int | None) -> None:
    """Stop the process in the middle of a random call to the disk, or make the call fail.

    A sync that fails for want of room is final, like any failed sync.
    """
    kinds = ["", "sync", "sync", "sync", "write", "rename", "remove", "sync_folder", "open", "read", "close"]
    if error == errno.ENOSPC:
        kinds = ["", "open", "write", "write", "rename", "remove", "read", "close", "sync"]
    kind = disk.random.choice(kinds)
    before, left = disk.before, disk.random.randint(1, 60 if not kind else 6)

    def counting(what: str, name: str) -> None:
        nonlocal left
        left -= not kind or kind == what
        if left == 0:
            left = -1
            if error is None:
                raise Stopped
            raise OSError(error, "injected", name)
        if before is not None:
            before(what, name)

    disk.before = counting
