"""Packed messages: unpacked unchanged, in order, and counted as smaller; others are kept as they are."""

import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hypothesis_settings import examples
from tests.support.queues import enqueue, journal_of, new_queue
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.queues import chunks, ready_messages
from warren.broker.core.queues.chunks import LONGEST, ChunkList, Packed, pack
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.reply_queue import ReplyQueue

PACK_ABOVE, RUN, UNPACK_BELOW = 10, 4, 3  # in these tests
ADDRESSES = [RoutingAddress("", "q"), RoutingAddress("topics", "a.b"), RoutingAddress("topics", "a.b.c")]


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_messages, "PACK_ABOVE", PACK_ABOVE)
    monkeypatch.setattr(ready_messages, "UNPACK_BELOW", UNPACK_BELOW)
    monkeypatch.setattr(chunks, "RUN", RUN)


def published(
    body: bytes,
    properties: Properties | None = None,
    address: RoutingAddress = ADDRESSES[0],
    channel: int = 1,
    persistent: bool = False,
) -> Message:
    """Return a message as a client publishes it on a channel, or as the broker makes it on channel 0."""
    raw = (properties or Properties()).encode()
    header_bytes = len(content_frames(channel, raw, b"")) - 8
    largest = max(header_bytes, len(body)) + 8 if channel else 0
    return Message(address, content_frames(channel, raw, body), channel, len(body), largest, persistent)


def numbered(first: int, count: int) -> list[Message]:
    return [published(b"%06d" % number) for number in range(first, first + count)]


def fields(message: Message) -> tuple[object, ...]:
    """Return all fields; the longest frame only where frames may be delivered as they are."""
    largest = message.largest_frame if message.channel else 0
    return (
        *(message.address, message.frames, message.channel, message.body_bytes, largest, message.persistent),
        *(message.id, message.state, message.seq),
    )


# One run

messages = st.builds(
    published,
    st.sampled_from((b"", b"body", b"other", b"x" * 200)),
    st.sampled_from((None, Properties(content_type="text"), Properties(content_type="text", app_id="y" * 150))),
    st.sampled_from(ADDRESSES),
    st.sampled_from((0, 1, 1, 7)),
)


@given(st.lists(messages, min_size=1, max_size=9), st.booleans(), st.booleans())
@examples(300)
def test_unpacked_messages_are_the_packed_ones(each: list[Message], persistent: bool, stored: bool) -> None:
    for number, message in enumerate(each, 1):
        message.persistent = persistent
        message.id = number << 40 if stored else 0
    run = pack(each)
    assert run is not None and run.count == len(each)
    assert run.body_bytes == sum(message.body_bytes for message in each)
    assert [fields(message) for message in run.unpack()] == [fields(message) for message in each]


@pytest.mark.parametrize("count", [1, 2, 256])
def test_equal_messages_take_little_more_than_their_frames(count: int) -> None:
    run = pack([published(b"b" * 100) for _ in range(count)])
    assert run is not None and run.lengths is None
    assert run.addresses == ADDRESSES[:1] and sys.getsizeof(run.contents) < count * 130 + 40


@pytest.mark.parametrize(("field", "value"), [("state", MessageState(level=1)), ("id", 1), ("seq", 1)])
def test_messages_with_a_state_or_a_number_or_not_all_stored_are_not_packed(field: str, value: object) -> None:
    each = numbered(0, RUN)
    setattr(each[2], field, value)
    assert pack(each) is None


def test_long_messages_are_not_packed() -> None:
    overhead = len(published(b"x").frames) - 1
    assert pack([published(bytes(LONGEST - overhead))]) is not None
    assert pack([published(b""), published(bytes(LONGEST - overhead + 1))]) is None


def test_messages_of_both_delivery_modes_are_not_packed_together() -> None:
    assert pack([published(b""), published(b"", persistent=True)]) is None


# Several runs


chunk_steps = st.one_of(st.tuples(st.sampled_from(("append", "store")), st.integers(1, 10)), st.just(("take", RUN)))


@given(st.lists(chunk_steps, max_size=40))
@examples(100)
def test_messages_in_memory_and_on_the_disk_follow_each_other_in_one_list(steps: list[tuple[str, int]]) -> None:
    ledger = Ledger(1 << 40)
    tail = ChunkList(ledger)
    model: list[int] = []  # a number that is negative is an id
    number = 0
    for step, count in steps:
        more = range(number + 1, number + 1 + count)
        if step == "take":
            taken = [int(message.body) for message in tail.take()] or [-id_ for id_ in tail.take_ids(count)[0]]
            assert taken == model[: len(taken)] and bool(taken) == bool(model)
            del model[: len(taken)]
            continue
        if step == "append":
            tail.append(numbered(more.start, count), count % 3 == 0)
        else:
            tail.store(array("Q", more), [0] * count)
        model += more if step == "append" else [-id_ for id_ in more]
        number = more[-1]
        assert tail.count == len(model) and tail.stored == sum(each < 0 for each in model)
        assert tail.count_bodies() == 6 * (tail.count - tail.stored)
        assert ledger.ready_bytes == -sum(chunk.saved_bytes for chunk in tail._chunks)


def test_the_caller_keeps_its_list() -> None:
    each = numbered(0, RUN + 1)
    tail = ChunkList(Ledger(1 << 40))
    tail.append(each, False)
    tail.append(numbered(5, 3), False)
    assert [message.body for message in each] == [message.body for message in numbered(0, RUN + 1)]


def test_shared_messages_stay_the_same_objects() -> None:
    each = numbered(0, 2 * RUN)
    tail = ChunkList(Ledger(1 << 40))
    tail.append(each[:1], False)
    tail.append(each[1:RUN], True)
    tail.append(each[RUN:], False)
    assert all(taken is message for taken, message in zip(tail.take(), each, strict=False))
    assert isinstance(tail._chunks[0], Packed)


# In a queue


def test_a_run_is_unpacked_when_all_messages_before_it_are_taken_and_no_earlier() -> None:
    queue = new_queue(number=0)
    for first in range(0, 60, 3):
        enqueue(numbered(first, 3), queue)
    line = queue.ready_messages.default
    for left in (48, 44, 40):
        for _ in range(len(line.fresh)):
            assert line.chunks.count == left
            queue.get(True)


def test_messages_of_several_queues_are_not_packed() -> None:
    queues = [new_queue(number=0), new_queue(number=0)]
    each = numbered(0, 30)
    for first in range(0, 30, 10):
        enqueue(each[first : first + 10], *queues)
    taken: list[list[Message]] = []
    for queue in queues:
        assert queue.ready_messages.default.chunks.count == 10
        taken.append([found[1] for _ in each if (found := queue.get(True)) is not None])
    assert [message.frames for message in taken[0]] == [message.frames for message in each]
    assert all(message is other for message, other in zip(*taken, strict=True)), "each queue has its own"


def test_a_purge_releases_packed_messages() -> None:
    queue = new_queue(number=1)
    for first in range(0, 40, 10):
        enqueue(numbered(first, 10), queue)
        enqueue([published(b"stored", persistent=True) for _ in range(RUN)], queue)
    assert journal_of(queue).stored == 4 * RUN and queue.ready_messages.default.chunks.count
    assert any(isinstance(run, Packed) and run.ids for run in queue.ready_messages.default.chunks._chunks)
    assert queue.purge() == 40 + 4 * RUN
    enqueue(numbered(0, 1), queue)
    queue.host.scheduler.finish_all()
    assert not journal_of(queue).live and queue.ready == 1 and not queue.journal.count
    assert queue.host.ledger.ready_bytes == 6 + Ledger.OVERHEAD


def test_a_reply_queue_keeps_to_its_limit_when_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplyQueue, "LIMIT", 25)
    queue = new_queue(ReplyQueue, 0)
    for first in range(0, 40, 5):
        queue.push(numbered(first, 5), 30)
    assert queue.ready == 25 and queue.ready_messages.default.chunks.count == 10
