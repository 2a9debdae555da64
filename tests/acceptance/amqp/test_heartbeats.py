"""Heartbeats, and the handshake timeout."""

from typing import Any

import pytest
from pamqp.commands import Connection

from tests.support import codec
from tests.support.amqp_client import PROTOCOL_HEADER, Silence
from tests.support.peer import Peer
from warren.broker.core.telemetry.resource_alarms import DISK

pytestmark = pytest.mark.in_process("the clock is moved")


@pytest.mark.parametrize("last_ms", [10, 499, 510, 990])
def test_a_silent_client_is_dropped_within_half_an_interval_after_two(broker: Peer, last_ms: int) -> None:
    client = broker.connect(heartbeat=1)
    client.nothing_for(last_ms)
    client.raw(codec.BEAT)
    client.nothing_for(1990)
    client.expect_eof(520)


@pytest.mark.parametrize("life", [codec.BEAT, codec.BEAT[:1]])
def test_any_byte_keeps_a_client_alive(broker: Peer, life: bytes) -> None:
    client = broker.connect(heartbeat=1)
    sent = codec.BEAT * 20
    for at in range(0, len(life) * 10, len(life)):
        client.raw(sent[at : at + len(life)])
        client.nothing_for(900)
    client.expect_eof(3100)


def test_an_idle_server_beats_twice_an_interval(broker: Peer) -> None:
    client = broker.connect(heartbeat=10)
    for _ in range(6):
        client.raw(codec.BEAT)
        client.nothing_for(10_000)
    assert 11 <= client.beats <= 13


def test_the_first_beat_comes_after_half_an_interval_although_open_ok_was_sent_in_it(broker: Peer) -> None:
    client = broker.connect(heartbeat=10)
    client.nothing_for(5100)
    assert client.beats == 1


def test_a_server_that_sends_anyway_need_not_beat(broker: Peer) -> None:
    client = broker.connect(heartbeat=10)
    channel = client.channel()
    for _ in range(20):
        client.nothing_for(4000)
        channel.sync()
    assert client.beats <= 1  # the first beat always comes


def test_no_interval_means_no_heartbeat_either_way(broker: Peer) -> None:
    client = broker.connect(heartbeat=0)
    client.nothing_for(3_600_000)
    assert client.beats == 0
    client.channel().sync()


@pytest.mark.parametrize("sent", [b"", b"AMQP", PROTOCOL_HEADER])
def test_a_handshake_that_stalls_is_cut_off_after_ten_seconds(broker: Peer, sent: bytes) -> None:
    client = broker.dial()
    client.raw(sent)
    client.read_bytes(0)
    if sent == PROTOCOL_HEADER:
        client.next()
    with pytest.raises(Silence):
        client.pump(9900)
    client.expect_eof(200)


def test_an_open_connection_is_not_bound_by_the_handshake_limit(broker: Peer) -> None:
    client = broker.connect()
    client.nothing_for(20_000)
    client.channel().sync()


def test_a_client_that_an_alarm_blocks_for_long_is_not_closed(broker: Any) -> None:
    ch = broker.connect(heartbeat=1).channel()
    ch.declare("queue")
    broker.node.alarms.set(DISK)
    ch.publish("", "queue", b"body")
    broker.wait(10_000)
    broker.node.alarms.clear(DISK)
    assert [type(ch.client.next()) for _ in range(2)] == [Connection.Blocked, Connection.Unblocked]
    assert ch.drain("queue") == [b"body"]
