"""The part of a long queue that is packed in memory: runs of messages, each run in one bytes object.

A message as an object of its own takes about 160 bytes beside its frames, a packed one a few. The frames of a run are
joined, and the fields of a message that are the same in all messages of the run are kept once, or are read from its
frames when it is unpacked.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr

from ...amqp.framing import FRAME_OVERHEAD
from ..messages.message import Message, total_bytes
from .lazy_deque import LazyDeque, made
from .ledger import Ledger

RUN = 256  # messages in a run
RUN_BYTES, ADDRESS_BYTES = 250, 8  # of memory of a run beside its contents, and of a reference to an address
LONGEST = 512  # bytes of frames; of longer messages the object is a small part, and copying them takes longer

_head: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">xHI4xQ").unpack_from  # channel, header, body


@mypyc_attr(acyclic=True)
class PackedRun:
    """A run of messages with the same delivery mode, oldest first.

    count, body_bytes  the number of messages, and the sum of their bodies
    contents           the frames of all messages
    lengths            of the frames of each message; None if those, the bodies' lengths and the channels are equal
    addresses          the address of each message, or one for all
    ids                `Message.id` of each; None if they are not stored
    """

    __slots__ = ("count", "contents", "lengths", "addresses", "ids", "persistent", "body_bytes")

    def __init__(self, messages: list[Message], alike: bool, addressed_alike: bool) -> None:
        self.count = len(messages)
        frames = [message.frames for message in messages]
        self.contents = b"".join(frames)
        self.addresses = [messages[0].address] if addressed_alike else [message.address for message in messages]
        self.lengths = None if alike else array("H", map(len, frames))
        self.ids = array("Q", [message.id for message in messages]) if messages[0].id else None
        self.persistent = messages[0].persistent
        self.body_bytes = total_bytes(messages)

    @property
    def saved_bytes(self) -> int:
        """The bytes of memory that the run saves, of those that the ledger counts for its messages."""
        lengths_bytes = 0 if self.lengths is None else self.lengths.itemsize * self.count
        ids_bytes = 0 if self.ids is None else self.ids.itemsize * self.count
        run_bytes = RUN_BYTES + len(self.contents) + lengths_bytes + ADDRESS_BYTES * len(self.addresses) + ids_bytes
        return self.count * Ledger.OVERHEAD + self.body_bytes - run_bytes

    def unpack(self) -> list[Message]:
        """Return the messages. HOT: the consumers of a backlog."""
        contents, addresses, persistent = self.contents, self.addresses, self.persistent
        address = addresses[0]
        if self.lengths is None:
            channel, header_bytes, body_bytes = _head(contents, 0)
            largest = (header_bytes if header_bytes > body_bytes else body_bytes) + FRAME_OVERHEAD
            parts = splitter(len(contents) // self.count, self.count)(contents)
            messages = [Message(address, frames, channel, body_bytes, largest, persistent) for frames in parts]
        else:
            messages = []
            at = 0
            for length in self.lengths:
                channel, header_bytes, body_bytes = _head(contents, at)
                largest = (header_bytes if header_bytes > body_bytes else body_bytes) + FRAME_OVERHEAD
                frames = contents[at : at + length]
                messages.append(Message(address, frames, channel, body_bytes, largest, persistent))
                at += length
        if len(addresses) > 1:
            for message, address in zip(messages, addresses, strict=True):
                message.address = address
        if self.ids is not None:
            for message, id_ in zip(messages, self.ids, strict=True):
                message.id = id_
        return messages


def pack(messages: list[Message]) -> PackedRun | None:
    """Return a run of these messages, or None if one of them cannot be packed. HOT: bench E.

    These cannot: logged messages, those with a state, long ones, and messages of both delivery modes, or of which only
    some are stored.
    """
    first = messages[0]
    address, channel, body_bytes, persistent = first.address, first.channel, first.body_bytes, first.persistent
    length, stored = len(first.frames), 0
    alike = addressed_alike = True
    for message in messages:
        own_length = len(message.frames)
        if own_length > LONGEST or message.state is not None or message.persistent is not persistent:
            return None
        if message.id or message.seq:
            if message.seq or not first.id:
                return None
            stored += 1
        if own_length != length or message.body_bytes != body_bytes or message.channel != channel:
            alike = False
        if message.address is not address:
            addressed_alike = False
    return PackedRun(messages, alike, addressed_alike) if not first.id or stored == len(messages) else None


@lru_cache(32)
def splitter(length: int, count: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """Return a function that splits bytes into `count` parts of one length, much faster than slices."""
    return Struct(f"{length}s" * count).unpack


class PackedTail:
    """A FIFO of messages that are packed in runs; runs of messages that cannot be packed, and the last ones, are not.

    `count` is the number of messages. The ledger counts what packed ones really take.
    """

    __slots__ = ("count", "_runs", "_last", "_shared", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.count = 0
        self._runs: LazyDeque[PackedRun | list[Message]] = ()
        self._last: list[Message] = []  # fewer than RUN
        self._shared = False  # some of these are also in other queues
        self._ledger = ledger

    def append(self, messages: list[Message], shared: bool) -> None:
        """Add messages. Those that are `shared` with other queues are not packed: each queue would have copies.

        HOT: bench E.
        """
        self.count += len(messages)
        last = self._last
        last += messages
        self._shared = self._shared or shared
        end = len(last) - len(last) % RUN
        if not end:
            return
        self._runs = runs = made(self._runs)
        for at in range(0, end, RUN):
            run = last[at : at + RUN]
            packed = None if self._shared else pack(run)
            if packed is not None:
                self._ledger.save(packed.saved_bytes)
                runs.append(packed)
            else:
                runs.append(run)
        del last[:end]
        self._shared = shared and len(last) > 0

    def take(self) -> list[Message]:
        """Remove and return the first run; empty if there are no messages."""
        if not self._runs:
            messages, self._last = self._last, []
            self._shared = False
        else:
            run = made(self._runs).popleft()
            if isinstance(run, PackedRun):
                messages = run.unpack()
                self._ledger.save(-run.saved_bytes)
            else:
                messages = run
        self.count -= len(messages)
        return messages

    @property
    def body_bytes(self) -> int:
        """The sum of their bodies."""
        runs = sum([run.body_bytes if isinstance(run, PackedRun) else total_bytes(run) for run in self._runs])
        return runs + total_bytes(self._last)
