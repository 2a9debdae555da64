"""The transport: deliveries are parsed out of the stream, however it is cut; all else goes on to aio-pika unchanged."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from tests.support import codec
from tests.support.hypothesis_settings import examples
from warren.federation.upstream import delivery_parser, transport
from warren.federation.upstream.delivery_parser import Delivery, DeliveryParser
from warren.federation.upstream.errors import LinkError
from warren.federation.upstream.transport import HEARTBEAT_FRAME, UpstreamEvents, UpstreamTransport


def delivery(
    tag: int, body: bytes = b"body", channel: int = 1, key: str = "key", properties: Any = None, frame_max: int = 0,
    redelivered: bool = False, exchange: str = "x", consumer_tag: str = "tag",
) -> list[bytes]:  # fmt: skip
    """Its frames."""
    fields = {"consumer_tag": consumer_tag, "delivery_tag": tag, "redelivered": redelivered}
    frames = [codec.method_frame(channel, Basic.Deliver, {**fields, "exchange": exchange, "routing_key": key})]
    frames.append(codec.header_frame(channel, len(body), properties))
    size = frame_max or len(body) or 1
    return frames + [codec.frame(codec.BODY, channel, body[at : at + size]) for at in range(0, len(body), size)]


def cut(pieces: list[bytes]) -> tuple[list[Delivery], list[bytes]]:
    taken, deliveries, others = DeliveryParser(), list[Delivery](), list[bytes]()
    for piece in pieces:
        taken.feed(piece, deliveries, others)
    return deliveries, others


BODIES = st.binary(max_size=40)
DELIVERIES = st.builds(
    delivery,
    st.integers(1, 1 << 60),
    BODIES,
    st.integers(1, 3),
    st.sampled_from(["", "key", "another.key"]),
    st.sampled_from([None, {"delivery_mode": 2}, {"headers": {"a": 1}, "priority": 3}]),
    st.sampled_from([0, 0, 7]),
    st.booleans(),
)
OTHERS = st.sampled_from(
    [
        [HEARTBEAT_FRAME],
        [codec.method_frame(2, Queue.BindOk, {})],
        [codec.method_frame(1, Basic.ConsumeOk, {"consumer_tag": "tag"})],
        [codec.method_frame(0, Connection.Blocked, {"reason": "low"})],
    ]
)


@given(st.lists(DELIVERIES | OTHERS, max_size=8), st.data())
@examples(150)
def test_any_way_of_cutting_the_stream_into_reads_gives_the_same(contents: list[list[bytes]], data: Any) -> None:
    stream = b"".join(frame for frames in contents for frame in frames)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[at:end] for at, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    deliveries, others = cut(pieces)
    expected = [frames for frames in contents if len(frames) > 1]
    assert others == [frame for frames in contents if len(frames) == 1 for frame in frames]
    assert [one.body_frames for one in deliveries] == [b"".join(frames[2:]) for frames in expected]
    for one, frames in zip(deliveries, expected, strict=True):
        method = codec.decode_method(frames[0][7:-1])
        assert isinstance(method, Basic.Deliver)
        assert (one.tag, one.redelivered) == (method.delivery_tag, method.redelivered)
        assert (one.exchange.decode(), one.routing_key.decode()) == (method.exchange, method.routing_key)
        assert one.properties == frames[1][19:-1] and one.consumer_tag == b"tag"
        assert one.body_bytes == sum(len(frame) - 8 for frame in frames[2:])
        assert one.channel == int.from_bytes(frames[0][1:3], "big")


def test_contents_of_two_channels_may_lie_in_each_other() -> None:
    first, second = delivery(1, b"a" * 20, 1, frame_max=5), delivery(2, b"b" * 20, 2, frame_max=5)
    mixed = [frame for pair in zip(first, second, strict=True) for frame in pair]
    deliveries, others = cut([b"".join([*mixed, HEARTBEAT_FRAME])])
    assert [one.channel for one in deliveries] == [1, 2]
    assert [one.body_frames for one in deliveries] == [b"".join(first[2:]), b"".join(second[2:])]
    assert others == [HEARTBEAT_FRAME]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"HTTP/1.1 400", "does not speak AMQP"),
        (codec.frame(codec.METHOD, 1, b"\0\x32\0\x15", b"\0"), "without its end"),
        (codec.frame(codec.METHOD, 1, b"\0" * 2000), "2000 bytes, 1000 are allowed"),
        (codec.frame(codec.METHOD, 1, b"\0\x3c\0\x3c\xfftag"), "malformed basic.deliver"),
        (codec.frame(codec.METHOD, 1, b"\0\x3c\0\x3c"), "malformed basic.deliver"),
        (b"".join(delivery(1)[:1] * 2), "out of place"),
        (b"".join(delivery(1, channel=0)), "out of place"),
        (b"".join([delivery(1)[0], delivery(1)[2]]), "out of place"),
        (b"".join([delivery(1)[0], codec.header_frame(1, 4, class_id=50)]), "out of place"),
        (b"".join([*delivery(1, b"ab", frame_max=1)[:3], codec.frame(codec.BODY, 1, b"long")]), "out of place"),
    ],
)
def test_what_is_no_amqp_is_said_and_what_came_before_it_is_kept(stream: bytes, reason: str) -> None:
    taken, deliveries, others = DeliveryParser(), list[Delivery](), list[bytes]()
    taken.frame_max = 1000
    with pytest.raises(LinkError, match=reason):
        taken.feed(b"".join(delivery(7)) + stream, deliveries, others)
    assert [one.tag for one in deliveries] == [7]


def test_of_a_message_that_is_too_large_nothing_is_kept_and_those_around_it_come_whole() -> None:
    taken, deliveries, others = DeliveryParser(60), list[Delivery](), list[bytes]()
    huge = [*delivery(2, b"x" * 61), *delivery(3, b"y" * 100, frame_max=30)]
    for part in ([*delivery(1, b"a" * 60), *huge, *delivery(4, b"b" * 60, frame_max=30)], delivery(5)):
        taken.feed(b"".join(part), deliveries, others)
    assert [(one.tag, one.body_bytes, bool(one.body_frames)) for one in deliveries] == [
        (1, 60, True), (2, 61, False), (3, 100, False), (4, 60, True), (5, 4, True),
    ]  # fmt: skip
    assert taken._kept_bytes == 0 and not others


def test_unfinished_messages_of_all_channels_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_parser, "OTHERS_MAX", 40)
    taken, deliveries, others = DeliveryParser(60), list[Delivery](), list[bytes]()
    for channel in (1, 2, 3):
        taken.feed(b"".join(delivery(1, b"x" * 60, channel, frame_max=30)[:3]), deliveries, others)
        if channel == 2:
            taken.drop_channel(1)
    with pytest.raises(LinkError, match="unfinished"):
        taken.feed(b"".join(delivery(1, b"x" * 60, 4, frame_max=30)[:3]), deliveries, others)


# The line


class Socket(asyncio.Transport):
    """The socket of the transport under test."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.aborted = False
        self.closed = asyncio.Event()
        self.unread_bytes = 0

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True
        self.closed.set()

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes


class Notes(UpstreamEvents):
    def __init__(self) -> None:
        self.deliveries: list[list[int]] = []
        self.cancels: list[tuple[int, str]] = []
        self.closes: list[tuple[int, int, str]] = []
        self.errors: list[Exception] = []
        self.fails = False

    def delivered(self, deliveries: list[Delivery]) -> None:
        if self.fails:
            raise ZeroDivisionError
        self.deliveries.append([one.tag for one in deliveries])

    def cancelled(self, channel: int, consumer_tag: str) -> None:
        self.cancels.append((channel, consumer_tag))

    def channel_closed(self, channel: int, fault: LinkError) -> None:
        self.closes.append((channel, fault.code, fault.text))

    def failed(self, error: Exception) -> None:
        self.errors.append(error)


class House:
    def __init__(self) -> None:
        self.notes = Notes()
        self.alone = True
        self.transport = UpstreamTransport(self.notes, alone=lambda: self.alone)
        self.transport.started = True
        self.socket = Socket()
        self.transport.connection_made(self.socket)

    def receive(self, *frames: bytes) -> None:
        self.transport.data_received(b"".join(frames))

    async def passed(self, size: int) -> bytes:
        """The next `size` bytes that went on to aio-pika."""
        return await asyncio.wait_for(self.transport.reader.readexactly(size), 10)

    def lose(self) -> None:
        self.transport.connection_lost(None)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    if house.transport.socket is not None:
        house.lose()


async def test_deliveries_of_one_read_come_together_and_before_what_is_behind_them(house: House) -> None:
    ok = codec.method_frame(0, Connection.Unblocked, {})
    house.receive(HEARTBEAT_FRAME, *delivery(1), ok, *delivery(2), *delivery(3)[:2])
    house.receive(*delivery(3)[2:])
    assert house.notes.deliveries == [[1, 2], [3]]
    assert await house.passed(len(HEARTBEAT_FRAME + ok)) == HEARTBEAT_FRAME + ok


async def test_an_answer_goes_to_its_call_and_not_to_aio_pika(house: House) -> None:
    first, second = (house.transport.call(1, Queue.Bind.index, b"args") for _ in range(2))
    other = house.transport.call(2, Exchange.Unbind.index, b"")
    assert house.socket.written.startswith(codec.frame(codec.METHOD, 1, b"\0\x32\0\x14args"))
    house.receive(codec.method_frame(2, Exchange.UnbindOk, {}), codec.method_frame(1, Queue.BindOk, {}))
    assert (first.done(), second.done(), other.done()) == (True, False, True)
    second.cancel()
    house.receive(codec.method_frame(1, Queue.BindOk, {}), HEARTBEAT_FRAME)
    assert await first == b"" and await house.passed(8) == HEARTBEAT_FRAME


async def test_a_closed_channel_fails_its_calls_with_what_the_upstream_said(house: House) -> None:
    calls = [house.transport.call(channel, Queue.Declare.index, b"") for channel in (1, 1, 2)]
    close = codec.method_frame(1, Channel.Close, {"reply_code": 404, "reply_text": "NOT_FOUND - no queue"})
    house.receive(close)
    assert house.notes.closes == [(1, 404, "NOT_FOUND - no queue")]
    with pytest.raises(LinkError, match="NOT_FOUND - no queue"):
        await calls[0]
    assert not calls[2].done()
    house.receive(HEARTBEAT_FRAME)
    assert await house.passed(8) == HEARTBEAT_FRAME, "aio-pika knows no channel"
    assert house.socket.written.endswith(codec.method_frame(1, Channel.CloseOk, {}))
    house.lose()
    with pytest.raises(LinkError, match="socket closed"):
        await calls[2]
    with pytest.raises(LinkError, match="socket closed"):
        await house.transport.call(1, Queue.Declare.index, b"")


async def test_flow_is_answered(house: House) -> None:
    house.receive(codec.method_frame(2, Channel.Flow, {"active": True}))
    assert house.socket.written == codec.method_frame(2, Channel.FlowOk, {"active": True})


async def test_what_the_upstream_says_at_the_end_is_the_reason(house: House) -> None:
    house.receive(codec.method_frame(0, Connection.Close, {"reply_code": 320, "reply_text": "CONNECTION_FORCED - x"}))
    call = house.transport.call(1, Queue.Declare.index, b"")
    house.lose()
    assert await house.transport.ended == "CONNECTION_FORCED - x"
    with pytest.raises(LinkError) as caught:
        await call
    assert caught.value.code == 320


async def test_a_consumer_that_the_upstream_ends_is_named(house: House) -> None:
    house.receive(codec.method_frame(3, Basic.Cancel, {"consumer_tag": "tag", "nowait": True}))
    assert house.notes.cancels == [(3, "tag")]


async def test_acknowledgements_are_those_of_amqp(house: House) -> None:
    house.transport.ack(1, 7, True)
    house.transport.nack(2, 8, True)
    house.transport.nack(2, 9, False)
    methods = [codec.decode_method(house.socket.written[at + 7 : at + 20]) for at in (0, 21, 42)]
    assert [dict(method) for method in methods] == [
        {"delivery_tag": 7, "multiple": True},
        {"delivery_tag": 8, "multiple": False, "requeue": True},
        {"delivery_tag": 9, "multiple": False, "requeue": False},
    ]


async def test_nothing_is_read_while_anybody_holds_it(house: House) -> None:
    house.transport.hold()
    house.transport.hold("reader")
    house.transport.release()
    assert not house.socket.reading
    house.transport.release("reader")
    assert house.socket.reading


async def test_aio_pikas_reader_holds_it_when_it_has_too_much(house: House) -> None:
    house.receive(*[HEARTBEAT_FRAME] * (transport.READER_LIMIT // 4 + 1))
    await asyncio.sleep(0)  # a full read rests for a turn, for another reason
    await asyncio.sleep(0)
    assert not house.socket.reading
    await house.passed(transport.READER_LIMIT * 2)
    assert house.socket.reading


async def test_after_a_full_read_others_have_their_turn(house: House) -> None:
    house.receive(*delivery(1, b"x" * transport.FULL_READ))
    assert not house.socket.reading and house.notes.deliveries == [[1]]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert house.socket.reading


async def test_an_upstream_that_falls_silent_is_given_up(house: House) -> None:
    house.transport.watch_heartbeats(0.001)
    await asyncio.wait_for(house.socket.closed.wait(), 10)
    house.lose()
    assert await house.transport.ended == "heartbeat_timeout"


async def test_while_it_is_not_read_it_is_not_watched_and_aio_pika_sees_heartbeats(house: House) -> None:
    house.transport.hold()
    house.transport.watch_heartbeats(0.001)
    assert await house.passed(8 * 5) == HEARTBEAT_FRAME * 5
    assert not house.socket.aborted


async def test_a_connection_that_is_lost_during_its_login_is_not_watched(house: House) -> None:
    loop, faults, later = asyncio.get_running_loop(), [], asyncio.Event()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    house.lose()
    house.transport.watch_heartbeats(0.001)
    loop.call_later(0.005, later.set)
    await later.wait()
    assert not faults


async def test_an_upstream_that_does_not_read_is_given_up(house: House) -> None:
    house.socket.unread_bytes = transport.WRITE_MAX + 1
    house.transport.ack(1, 1, False)
    assert house.socket.aborted
    written = house.socket.written
    house.transport.ack(1, 2, False)
    assert house.socket.written == written
    house.lose()
    assert "does not read" in await house.transport.ended


async def test_nonsense_ends_the_connection_and_nothing_else(house: House) -> None:
    house.receive(b"nonsense")
    assert house.socket.aborted
    house.lose()
    assert "does not speak AMQP" in await house.transport.ended


async def test_a_bug_of_ours_ends_the_connection_and_is_told(house: House) -> None:
    house.notes.fails = True
    house.receive(*delivery(1))
    assert house.socket.aborted and isinstance(house.notes.errors[0], ZeroDivisionError)


@pytest.fixture
def looks_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "DEADLINE_CHECK_S", 3600.0)


@pytest.mark.usefixtures("looks_by_hand")
async def test_an_upstream_that_does_not_answer_is_given_up_however_much_else_it_sends(house: House) -> None:
    answered, call = (house.transport.call(1, Queue.Bind.index, b"") for _ in range(2))
    for _ in range(transport.ANSWER_S - 1):
        house.transport._check_deadlines()
        house.receive(HEARTBEAT_FRAME)
    house.receive(codec.method_frame(1, Queue.BindOk, {}))
    assert answered.done() and not house.socket.aborted
    house.transport._check_deadlines()
    assert house.socket.aborted
    house.lose()
    with pytest.raises(LinkError, match="the upstream has not answered a request within 30 s"):
        await call


@pytest.mark.usefixtures("looks_by_hand")
async def test_an_answer_that_we_do_not_read_is_not_overdue(house: House) -> None:
    call = house.transport.call(1, Queue.Bind.index, b"")
    house.transport.hold()
    for _ in range(2 * transport.ANSWER_S):
        house.transport._check_deadlines()
    house.transport.release()
    house.transport._check_deadlines()
    assert not house.socket.aborted
    house.receive(codec.method_frame(1, Queue.BindOk, {}))
    assert await call == b""


async def test_nothing_is_written_once_another_broker_may_act_as_this_one(house: House) -> None:
    house.transport.ack(1, 1, False)
    house.alone = False
    house.transport.ack(1, 2, False)
    assert house.socket.aborted and house.socket.written.count(b"\x00\x3c\x00\x50") == 1
