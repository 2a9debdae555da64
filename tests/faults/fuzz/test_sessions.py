"""Damaged sessions: the broker sends valid frames only, ends them with a documented error, and serves other clients."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import base
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue, Tx

from tests.support import codec
from tests.support.amqp_client import PROTOCOL_HEADER, Silence
from tests.support.clock import FakeClock
from tests.support.hypothesis_settings import examples
from tests.support.queues import ready_messages
from tests.support.session import SessionPipe, SlowJournal, connected, dial, new_node, pipe_of
from warren.broker.amqp import properties
from warren.broker.core.node.node import Node
from warren.broker.session.connection import CLOSED, CLOSING

HARD = {403, 501, 502, 503, 504, 505, 506, 530, 540}
SOFT = {403, 404, 405, 406}
WITH_CONTENT = {Basic.Deliver.index, Basic.GetOk.index, Basic.Return.index}


def said(kind: type[base.Frame], channel: int = 0, **fields: Any) -> bytes:
    return codec.method_frame(channel, kind, fields)


def publish(channel: int, exchange: str, key: str, body: bytes, given: Any = None, **flags: bool) -> list[bytes]:
    method = said(Basic.Publish, channel, exchange=exchange, routing_key=key, **flags)
    return [method, codec.header_frame(channel, len(body), given), *[codec.frame(3, channel, body)] * bool(body)]


def greeting() -> list[bytes]:
    capabilities = {"consumer_cancel_notify": True, "authentication_failure_close": True}
    return [
        PROTOCOL_HEADER,
        said(Connection.StartOk, client_properties={"capabilities": capabilities}, mechanism="PLAIN",
             response="\0guest\0guest", locale="en_US"),
        said(Connection.TuneOk, channel_max=10, frame_max=4096),
        said(Connection.Open, virtual_host="/"),
    ]  # fmt: skip


def consuming() -> list[bytes]:
    """Return declarations, publishes and settlements on one channel, with confirms."""
    fields = {"queue": "q", "exchange": "x", "routing_key": "a.#"}
    return [
        said(Channel.Open, 1),
        said(Confirm.Select, 1),
        said(Exchange.Declare, 1, exchange="x", exchange_type="topic", auto_delete=True),
        said(Exchange.Declare, 1, exchange="y", exchange_type="headers", arguments={"alternate-exchange": "x"}),
        said(Queue.Declare, 1, queue="q", exclusive=True, arguments={"x-max-length": 10, "deep": {"er": [1, {}]}}),
        said(Queue.Declare, 1, queue="d", durable=True, auto_delete=True),
        said(Queue.Bind, 1, **fields),
        said(Exchange.Bind, 1, destination="x", source="y", arguments={"x-match": "any", "k": 1}),
        said(Basic.Qos, 1, prefetch_count=3),
        *publish(1, "x", "a.b", b"one"),
        *publish(1, "x", "a.b", b"two"),
        *publish(1, "y", "a", b"three", {"headers": {"k": 1, "CC": ["q"], "BCC": ["d"]}, "expiration": "100"}),
        *publish(1, "", "d", b"", {"delivery_mode": 2, "user_id": "guest"}, mandatory=True),
        *publish(1, "", "nowhere", b"back", mandatory=True),
        said(Basic.Consume, 1, queue="q", consumer_tag="c"),
        said(Basic.Ack, 1, delivery_tag=1),
        said(Basic.Consume, 1, queue="d", consumer_tag="p", arguments={"x-priority": 5}),
        said(Basic.Nack, 1, delivery_tag=2, requeue=True),
        said(Basic.Get, 1, queue="d"),
        codec.BEAT,
        said(Basic.Reject, 1, delivery_tag=3),
        said(Basic.Recover, 1, requeue=True),
        said(Basic.Cancel, 1, consumer_tag="c"),
        said(Queue.Purge, 1, queue="q"),
        said(Queue.Unbind, 1, **fields),
    ]


def transacting() -> list[bytes]:
    """Return a transaction, direct reply-to, and the closing of another channel and of the connection."""
    return [
        said(Channel.Open, 2),
        said(Tx.Select, 2),
        said(Queue.Declare, 2, queue="t", durable=True),
        *publish(2, "", "t", b"in a transaction" * 20, {"delivery_mode": 2}),
        *publish(2, "", "t", b"and again"),
        said(Tx.Rollback, 2),
        *publish(2, "", "t", b"kept", {"delivery_mode": 2}),
        said(Basic.Get, 2, queue="t"),
        said(Tx.Commit, 2),
        said(Channel.Open, 3),
        said(Basic.Consume, 3, queue="amq.rabbitmq.reply-to", no_ack=True),
        *publish(3, "", "t", b"ask", {"reply_to": "amq.rabbitmq.reply-to", "correlation_id": "1"}),
        said(Basic.Consume, 3, queue="t", no_ack=True, exclusive=True),
        said(Queue.Delete, 3, queue="t"),
        said(Channel.Close, 3, reply_code=200),
        said(Connection.Close, reply_code=200),
        said(Connection.CloseOk),
    ]


def session(slow: bool) -> list[bytes]:
    return greeting() + consuming() + transacting() if not slow else greeting() + transacting()[:-4] + consuming()


@st.composite
def damaged(draw: st.DrawFn) -> list[bytes]:
    """A recorded session with some frames lost, doubled, moved, changed or cut short."""
    frames = session(draw(st.booleans()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(frames) - 1))
        other = draw(st.integers(0, len(frames) - 1))
        frame = bytearray(frames[at])
        place = draw(st.integers(0, max(len(frame) - 1, 0)))
        match draw(st.sampled_from(("flip", "flip", "byte", "double", "lose", "move", "cut", "noise", "channel"))):
            case "flip" if frame:
                frame[place] ^= 1 << draw(st.integers(0, 7))
                frames[at] = bytes(frame)
            case "byte" if frame:
                frame[place] = draw(st.sampled_from((0, 1, 0x7F, 0xCE, 0xFF)))
                frames[at] = bytes(frame)
            case "double":
                frames.insert(other, frames[at])
            case "lose" if len(frames) > 1:
                del frames[at]
            case "move":
                frames.insert(other, frames.pop(at))
            case "cut":
                frames[at] = bytes(frame[:place])
            case "noise":
                frames.insert(at, draw(st.binary(max_size=20)))
            case "channel" if len(frame) > 3:
                frames[at] = frames[at][:1] + draw(st.integers(0, 4)).to_bytes(2, "big") + frames[at][3:]
    return frames


class Witness:
    """Another client of the same node, which must be able to work on."""

    def __init__(self, node: Node) -> None:
        self.client = connected(node)
        self.ch = self.client.channel()
        self.ch.declare("witness")
        self.ch.publish("", "witness", b"before")

    def works(self) -> None:
        self.ch.publish("", "witness", b"after")
        assert self.ch.drain("witness") == [b"before", b"after"]


def check_output(data: bytes) -> None:
    """Check that the output is whole and readable frames, that each content is complete, and each error documented."""
    if data == PROTOCOL_HEADER:
        return  # the answer to a wrong header
    missing: dict[int, int] = {}  # bytes of body still to come, by channel; -1 before the header
    while data:
        kind, channel, size = data[0], int.from_bytes(data[1:3], "big"), int.from_bytes(data[3:7], "big")
        payload, end, data = data[7 : 7 + size], data[7 + size : 8 + size], data[8 + size :]
        assert end == codec.FRAME_END
        if kind == codec.METHOD:
            assert channel not in missing
            if int.from_bytes(payload[:4], "big") in WITH_CONTENT:
                missing[channel] = -1  # not decoded: a routing key is delivered in the bytes it had, UTF-8 or not
                continue
            method: Any = codec.decode_method(payload)
            if isinstance(method, Connection.Close | Channel.Close):
                assert method.reply_code in (SOFT if channel else HARD), dict(method)
        elif kind == codec.HEADER:
            assert missing[channel] == -1
            properties.check(payload[12:])
            missing[channel] = int.from_bytes(payload[4:12], "big")
        else:
            assert kind == codec.BODY
            missing[channel] -= size
        if missing.get(channel) == 0:
            del missing[channel]
    assert not missing


def check_queues(node: Node) -> None:
    for queue in node.vhosts["/"].queues.values():
        assert queue.ready_bytes == sum(message.body_bytes for message in ready_messages(queue))
        assert queue.unacked >= 0 and not queue.dirty


def check_gone(node: Node, journal: SlowJournal) -> None:
    """Check that the closed connection has left nothing that only it could use."""
    vhost = node.vhosts["/"]
    check_queues(node)
    assert node.open_connections == 1 and not vhost.reply_queues and not node.pending
    for queue in vhost.queues.values():
        assert queue.owner is None and not len(queue.consumers) and not queue.unacked and not queue.held_publishers.held
    kept = set()
    for queue in vhost.queues.values():
        kept |= {(queue.number, message.id) for message in ready_messages(queue) if queue.number and message.persistent}
    assert set(journal.live) == kept and not journal.left and not journal.loose


def run(pieces: list[bytes], after_each: Callable[[SlowJournal], None]) -> None:
    journal = SlowJournal()
    node = new_node(journal)
    witness = Witness(node)
    pipe = pipe_of(dial(node))
    sent = b""
    for piece in pieces:
        pipe.connection.receive(piece)
        check_queues(node)
        after_each(journal)
        while pipe.link.asked:  # replies that waited for the journal
            sent += taken(pipe)
            check_queues(node)
            after_each(journal)
        assert after_each is not at_once or not pipe.connection.suspended
        if pipe.link.closing == 0.0:
            break
    check_output(sent)
    assert (pipe.link.closing is not None) == (pipe.connection.state in (CLOSING, CLOSED))
    witness.works()
    pipe.close()
    assert isinstance(node.clock, FakeClock)
    node.clock.advance(0)  # a turn in which there is time for the end of the connection, if this one has none left
    check_gone(node, journal)
    at_once(journal)
    assert not taken(pipe)


def taken(pipe: SessionPipe) -> bytes:
    try:
        return pipe.receive()
    except Silence:
        return b""


def at_once(journal: SlowJournal) -> None:
    journal.commit(journal.ticket())


def never(journal: SlowJournal) -> None:
    """Commit nothing."""


def late(journal: SlowJournal) -> None:
    """Commit everything up to now."""
    journal.commit(journal.sealed)
    journal.seal()


@pytest.mark.parametrize("slow", [False, True])
def test_the_recorded_sessions_meet_no_error(slow: bool) -> None:
    journal = SlowJournal()
    pipe = pipe_of(dial(new_node(journal)))
    for piece in session(slow):
        pipe.send(piece)
        at_once(journal)
    sent = taken(pipe)
    check_output(sent)
    assert not [event for event, _ in pipe.link.log if event in ("channel_closing", "connection_closing")]
    assert sent.count(said(Basic.Return, 1, reply_code=312, reply_text="NO_ROUTE", routing_key="nowhere")) == 1


@given(damaged(), st.sampled_from((at_once, late, never)), st.integers(1, 5))
@examples(150)
def test_a_damaged_session_hurts_nobody_else(
    frames: list[bytes], after_each: Callable[[SlowJournal], None], together: int
) -> None:
    run([b"".join(frames[at : at + together]) for at in range(0, len(frames), together)], after_each)


@given(damaged(), st.integers(1, 200))
@examples(40)
def test_a_session_that_is_cut_anywhere_hurts_nobody_else(frames: list[bytes], size: int) -> None:
    stream = b"".join(frames)
    run([stream[at : at + size] for at in range(0, len(stream), size)], at_once)


def test_a_connection_cut_within_a_publish_enqueues_nothing() -> None:
    frames = b"".join(publish(1, "", "shared", b"body" * 10, {"message_id": "m"}))
    for end in range(len(frames)):
        node = new_node()
        ch = connected(node).channel(1)
        ch.declare("shared")
        ch.client.raw(frames[:end])
        ch.client.vanish()
        assert node.vhosts["/"].queues["shared"].ready == 0
