"""The exchange type x-recent-history: a fanout that delivers its last messages to each new binding.

It keeps x-recent-history-length messages, or 20, but none with the header x-recent-history-no-store. More than 20 are
kept as long as they take HISTORY_BYTES at most. A durable exchange keeps them over a restart, whatever their delivery
mode.

The messages are delivered to a new binding in slices. Only then the binding takes part in routing: messages that are
published meanwhile are kept like the others, and delivered after them.
"""

from collections.abc import Iterable, Iterator

from warren.broker.amqp.field_table import INTEGERS, term_of
from warren.broker.plugin import (
    Binding,
    Destination,
    Emission,
    ExchangeContext,
    FanoutExchange,
    KeptMessage,
    Message,
    PreconditionFailed,
    RecoveredMessages,
    Table,
)

LENGTH = "x-recent-history-length"
NO_STORE = "x-recent-history-no-store"
DEFAULT_LENGTH = 20
HISTORY_BYTES = 64 << 20  # contents of more than DEFAULT_LENGTH messages, without those that are being dropped
MESSAGE_BYTES = 500  # size of each message beside its content
SLICE, SLICE_BYTES = 500, 1 << 20  # messages delivered to a new binding together, and about how many bytes of frames
DROPS = 500  # old messages that are dropped in one step, because a long one may displace very many short ones
LAST_SLICE = 100  # messages, the last ones, which are enqueued together
REPLAY_COST = 20  # the cost of a publish while the history is being delivered, so that publishers do not outrun it
EXCHANGE = "exchange"


class Replay:
    """The delivery of the history to a new binding."""

    __slots__ = ("at", "end", "newest")

    def __init__(self, at: int, newest: int, bound: bool) -> None:
        self.at = at  # the number of the next message
        self.newest = newest  # the number after the last message at the time of the binding
        self.end = newest if bound else None  # `newest` if the destination gets newer messages by another binding


class RecentHistoryExchange(FanoutExchange):
    description = "Recent history exchange: a new binding gets the last messages"

    __slots__ = (
        *("_length", "_kept", "_first", "_oldest", "_next", "_bytes", "_dropping"),
        *("_replays", "_context", "_route_cost", "_deleted"),
    )

    routes_by_key_only = False  # each message is kept
    fixed_arguments = (LENGTH,)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._length = length_of(arguments)
        self._kept: dict[int, KeptMessage] = {}  # by consecutive numbers, the oldest first
        self._first = 0  # the number of the first of them
        self._oldest = 0  # the number of the first message in the history: earlier ones are to be dropped
        self._next = 0  # the number of the next message
        self._bytes = 0  # size of the messages in the history
        self._dropping = False  # in a job
        self._replays: dict[Binding, Replay] = {}
        self._context: ExchangeContext | None = None
        self._route_cost = 0
        self._deleted = False

    @property
    def persists_messages(self) -> bool:
        return True

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context

    def restore(self, stored: RecoveredMessages) -> None:
        assert self._context is not None, "on_created was called"
        for message in stored.read(self._context):
            self._add(KeptMessage(self._context.number, message))

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        bound = binding.destination in self.bound
        if bound or not self._kept:
            super().on_bind(binding)
        if not self._kept:  # as for bindings that a restart restores
            return ()
        self._replays[binding] = replay = Replay(self._oldest, self._next, bound)
        return self._replay(binding, replay)

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        replay = self._replays.pop(binding, None)
        if replay is None or replay.end is not None:
            super().on_unbind(binding)
        return ()

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        headers = message.headers
        excluded = headers.flag(NO_STORE)
        self._route_cost = headers.read_cost + (REPLAY_COST if self._replays else 0)
        if excluded:
            return self.bound.all()
        assert self._context is not None, "on_created was called"
        return [*self.bound.all(), KeptMessage(self._context.number, message.as_republished(), self._keep)]

    def _keep(self, kept: KeptMessage) -> None:
        if self._deleted:
            kept.dropped = True
            return
        self._add(kept)
        count = self._next - self._oldest
        while count > self._length or self._bytes > HISTORY_BYTES and count > DEFAULT_LENGTH:
            self._bytes -= MESSAGE_BYTES + len(self._kept[self._oldest].message.frames)
            self._oldest += 1
            count -= 1
        self._drop_some()
        if self._first < self._oldest and not self._dropping:
            self._dropping = True
            assert self._context is not None, "on_created was called"
            self._context.start(self._drop_in_steps(), appends=False)

    @property
    def route_cost(self) -> int:
        return self._route_cost

    def on_deleted(self) -> None:
        self._deleted = True

    def release(self) -> Iterator[int]:
        self._oldest = self._next
        yield from self._drop_in_steps()

    def _replay(self, binding: Binding, replay: Replay) -> Iterator[Emission]:
        """Yield the history in slices. With the last one the binding takes part in routing."""
        destination = binding.destination
        last_limit = 1 if destination.kind == EXCHANGE else LAST_SLICE
        yield Emission((), ())  # later messages are taken when they are enqueued
        while self._replays.get(binding) is replay:  # it may be deleted meanwhile
            end = self._next if replay.end is None else replay.end
            messages = self._slice(max(replay.at, self._oldest), end)
            replay.at = max(replay.at, self._oldest) + len(messages)
            last = replay.at >= end and len(messages) <= last_limit
            if last:
                if replay.end is None:
                    self._bind(destination)
                del self._replays[binding]
            yield Emission([destination], messages, at_once=last)

    def _slice(self, first: int, end: int) -> list[Message]:
        messages: list[Message] = []
        slice_bytes = 0
        for number in range(first, min(first + SLICE, end)):
            messages.append(self._kept[number].message.as_republished())
            slice_bytes += len(messages[-1].frames)
            if slice_bytes >= SLICE_BYTES:
                break
        return messages

    def _bind(self, destination: Destination) -> None:
        """Route to a destination that has the whole history; its other new bindings get no newer messages."""
        for binding, replay in self._replays.items():
            if binding.destination is destination and replay.end is None:
                replay.end = replay.newest
                self.bound.add(destination)

    def _add(self, kept: KeptMessage) -> None:
        self._kept[self._next] = kept
        self._next += 1
        self._bytes += MESSAGE_BYTES + len(kept.message.frames)

    def _drop_in_steps(self) -> Iterator[int]:
        while self._first < self._oldest:
            self._drop_some()
            yield DROPS
        self._dropping = False

    def _drop_some(self) -> None:
        """Drop some of the messages that are not in the history any more."""
        for number in range(self._first, min(self._first + DROPS, self._oldest)):
            kept = self._kept.pop(number)
            self._first += 1
            kept.dropped = True
            if kept.message.id and self._context is not None:
                self._context.drop(kept.message.id, True)


def length_of(arguments: Table) -> int:
    """Return the number of messages to keep. Raises PreconditionFailed (406)."""
    value = arguments.get(LENGTH)
    if value is None:
        return DEFAULT_LENGTH
    if value[0] not in INTEGERS or not isinstance(value[1], int) or value[1] < 1:
        raise PreconditionFailed(f"Invalid argument {term_of(value)}, '{LENGTH}' must be a positive integer")
    return value[1]
