"""The port of the journal, through which storage reaches the core, and the status of storage."""

from __future__ import annotations

import errno
from array import array
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from .message import ByteCount, Message

if TYPE_CHECKING:
    from ..metadata.records import Change

# The process or the system has no descriptors or memory to spare, or the server that has the journal cannot be reached
# (ENOTCONN): operations are retried, because the stored messages are intact.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOTCONN)
FULL = (errno.ENOSPC, errno.EDQUOT)  # operations are retried once the disk has room; any other failure is final
# The answers of `Journal.room`
ROOM: Final = 0  # messages may be appended
BEHIND: Final = 1  # too much is waiting to be written, until `when_durable` of `ticket` makes its call
DISK_FULL: Final = 2  # the alarm of the disk is on: the rest of the space is for settlements and deletions
IN_FLIGHT = 2  # the batches of a journal that are written and synced at a time, on a disk


class RecoveredQueue:
    """The messages of one durable queue or exchange that recovery found in the log, oldest first.

    ids           of the messages
    body_bytes    sum of their bodies
    levels        the priority level of each message, one byte each (`QueueSettings.level`); empty if all are 0
    deadlines_ms  the deadline of each message, 0 for none; None if no message has one
    """

    __slots__ = ("ids", "body_bytes", "levels", "deadlines_ms")

    def __init__(self) -> None:
        self.ids = array("Q")
        self.body_bytes = 0
        self.levels = b""
        self.deadlines_ms: array[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def append(self, id_: int) -> None:
        self.ids.append(id_)


class Batch:
    """Records that a journal writes and syncs together.

    Both calls run on other threads and raise OSError. After one of FULL or EXHAUSTED a call may be made again; after
    any other the records are lost.
    """

    number: int

    def write(self) -> None:
        """Write the records, after all batches with lower numbers were written."""

    def sync(self) -> None:
        """Make what `write` has written durable. Calls for different batches may run at the same time."""


def ids_by_queue() -> defaultdict[int, array[int]]:
    """Return an empty map from queues to ids of messages: arrays, as ints in a list take 40 bytes each."""
    return defaultdict(partial(array, "Q"))


class Commit:
    """A transaction of a client in the journal, which is whole or absent after a power cut, however long it takes.

    number    from 1 on if it may be in several batches, otherwise 0
    settles   settlements belong to it from now on, and no messages that are stored
    ended     it holds, and nothing more belongs to it
    stored    the ids of its messages: the first one, and the one after the last one, of each run
    logged    how many of these ids are recorded
    settled   ids of messages by queue that are not recorded yet
    recorded  a batch before this one may have a part of it
    next_id   of the journal when it was entered
    """

    __slots__ = ("number", "settles", "ended", "stored", "logged", "settled", "recorded", "next_id")

    def __init__(self) -> None:
        self.number = 0
        self.settles = False
        self.ended = False
        self.stored: list[int] = []
        self.logged = 0
        self.settled = ids_by_queue()
        self.recorded = False
        self.next_id = 0


class Backup:
    """A backup of all that is stored, as it was at one moment.

    No segment of that moment is deleted until `end`, or until the disk is full and one of them could be.
    """

    def pieces(self, facts: dict[str, object]) -> Generator[bytes, None, None]:
        """Yield the archive, which begins with the facts. Another thread iterates over it, to its end or closes it."""
        raise NotImplementedError

    def end(self) -> None:
        """Let segments be deleted again."""


class Recovery(NamedTuple):
    """The state in which a journal was found at the start. Its batches are numbered without gaps, over all starts."""

    store: int  # identifies the log; a copy has the same
    batch: int  # the number of the last batch
    settling: int  # the number of the last batch that settled messages
    damage: int  # how many records and files of the log were found damaged or missing


class Position(NamedTuple):
    """The numbers in the log of the last durable batch, and of the one that has or will have the last record."""

    durable: int
    last: int


class Journal:
    """A write-ahead log of the messages of durable queues, with group commit.

    Records are appended to the batch that is being filled, whose number is `ticket()`. A batch is durable once
    `durable` has reached its number. Queues are known by numbers that are never reused; 0 is no queue.

    A durable batch with messages or settlements is on the disk, with all that was declared before. A batch of nothing
    but declarations survives a killed process, and a power cut only after `sync` or after a batch with messages: no
    confirm has depended on it until then.

    This base class stores nothing, as a node in memory: confirms need not wait for it.

    recovery                     the state in which it was found, or None if nothing is stored
    full                         the disk has too little space: the next batches free what they can
    alarm                        that of the disk is on
    in_flight                    the batches that may be sealed and not committed
    written_bytes, read_bytes    bytes of files, since the start of the broker
    reads, read_messages         reads of a file, each of many messages if possible; and the messages
    read_cost                    bytes whose transfer takes as long as a read by itself
    """

    durable = 0
    addresses = ByteCount()  # the node's sum, in which those of messages that were read count
    recovery: Recovery | None = None
    full = False
    alarm = False
    in_flight = IN_FLIGHT
    written_bytes = 0
    read_bytes = 0
    reads = 0
    read_messages = 0
    read_cost = 0

    @property
    def backing_up(self) -> bool:
        """Whether a backup has begun, and not ended."""
        return False

    @property
    def written_messages(self) -> int:
        """Messages written since the start of the broker, copies by compaction included."""
        return 0

    @property
    def read_errors(self) -> int:
        """Reads of a file that the disk refused, repeated reads included."""
        return 0

    @property
    def damaged_records(self) -> int:
        """Records with a wrong checksum, counted each time they were read."""
        return 0

    def ticket(self) -> int:
        """Return the number of the batch that is being filled, or of the last one if that is empty."""
        return 0

    def position(self) -> Position:
        """Return its position. Records and settlements so far are in the batch `last`, or in earlier ones."""
        return Position(0, 0)

    def room(self) -> int:
        """Return ROOM if messages may be appended, or the condition that must end first: BEHIND or DISK_FULL.

        Whoever appends messages asks this before, or after a few that could not wait.
        """
        return DISK_FULL if self.alarm else ROOM

    def note_alarm(self, on: bool) -> None:
        """Note that the alarm of the disk has begun, or has ended."""
        self.alarm = on

    def unwritten_bytes(self) -> int:
        """Return the bytes that are still to be written."""
        return 0

    def append(self, queues: list[int], messages: list[Message]) -> None:
        """Store each message once for all these queues. Sets its `id`, which must be 0: ids ascend and never change."""

    def hold(self, id_: int) -> bool:
        """Keep a message that was stored for no queue until it is settled once more; return False if it is deleted."""
        return False

    def settle(self, queue: int, id_: int) -> None:
        """Release the message for the queue: it was acknowledged, dropped or purged."""

    def settle_many(self, queue: int, messages: list[Message]) -> None:
        """Release messages for the queue, at least one."""

    def settle_moved(self, queue: int, id_: int) -> None:
        """Settle a message atomically with its copies for other queues, which were appended since the last `seal`.

        A power cut may keep any part of a batch; the message or its copies must survive.
        """
        self.settle(queue, id_)

    def record_delivery_count(self, queue: int, id_: int, attempts: int) -> None:
        """Record how often the message has returned to the queue. `read` and recovery restore it; it only grows."""

    def enter(self, commit: Commit | None) -> Commit | None:
        """Have messages that are stored from now on belong to this commit, unless it has ended; return the one before.

        Enter that again, or None, before the turn of the loop ends, and before anything is done for others.
        """
        return None

    def begin_settling(self, commit: Commit) -> None:
        """Have settlements belong to the commit that is entered. It must not wait for others until its end."""

    def keep_open(self, commit: Commit) -> None:
        """Note that a commit goes on in later batches. It is entered no more, and may have ended."""

    def end(self, commit: Commit) -> None:
        """Record that all of a commit is done: it holds with the batch that is being filled."""

    def queue_deleted(self, queue: int) -> None:
        """Record that the queue is deleted; its messages need no settlement records from now on."""

    def change(self, change: Change) -> None:
        """Record that something durable was declared or deleted."""

    def seal(self) -> Batch | None:
        """Return the records since the last batch, or None if there are none or too many batches are not committed."""
        return None

    def unsynced(self) -> bool:
        """Return whether a power cut could still lose declarations."""
        return False

    def sync(self) -> None:
        """Have the next batch sync declarations, and delete what a full disk kept from being deleted."""

    def unvouched(self) -> bool:
        """Return whether damage to the last durable batch would pass for one that a power cut has torn."""
        return False

    def vouch(self) -> None:
        """Have the next batch say that all before it is durable, if nothing else does: it need not survive itself."""

    def backup(self, begun: Callable[[], None]) -> Backup | None:
        """Begin a backup, unless one is under way; None if nothing is stored.

        Its moment is after one of the next batches. `begun` is called when that is durable: `pieces` may be called.
        """
        return None

    def committed(self, number: int) -> None:
        """Mark the batch as durable once all batches before are: its `sync` has returned."""

    def close(self) -> None:
        """Write a checkpoint and close the files. No batch may be outstanding."""

    def read(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        """Read stored messages, in this order, each with its delivery attempts in this queue.

        A message may be read again until it is settled. One that is damaged, or that the disk could not read, gives
        None, and its place has been logged. If such a message follows one that could be read, the list ends before it,
        and those from there on were not tried. A list of long messages ends early likewise, and one of messages that
        are far from each other. The list is empty if the system has no descriptors or memory to spare; nothing is known
        of any message then.
        """
        return []

    def read_all(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        """Read all messages, damaged ones included, unless the system runs out of descriptors or memory."""
        messages = self.read(ids, queue)
        while 0 < len(messages) < len(ids):
            read = self.read(ids[len(messages) :], queue)
            if not read:
                break
            messages += read
        return messages

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        """Call `fn` once `durable` reaches the ticket, which must be in the future. Calls are made in that order."""


POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class StorageStatus:
    """The status of storage."""

    kind: str  # fsync, os, memory or postgresql
    guarantee: str  # the place of a message when it is confirmed, as in "a confirmed message is on {guarantee}"
    warning: str = ""  # why that is weaker than it may seem; or empty
    place: str = ""  # the data folder, or the address of the server; empty in memory
    replicated: bool = False  # whether a confirm waits for a second machine


IN_MEMORY = StorageStatus("memory", "no disk", "nothing survives a restart")
