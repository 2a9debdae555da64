"""The handshake, and opening and closing of connections."""

from typing import Any

import pytest
from pamqp.commands import Channel as ChannelMethods
from pamqp.commands import Connection

from tests.support import codec
from tests.support.amqp_client import PROTOCOL_HEADER, Channel, Client
from tests.support.peer import Peer

CAPABILITIES = ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
                "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
                "direct_reply_to")  # fmt: skip
LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
)


def started(broker: Peer, **peer: Any) -> Client:
    client = broker.dial(**peer)
    client.start()
    return client


def tuning(broker: Peer) -> Client:
    client = started(broker)
    client.login("PLAIN", "\0guest\0guest")
    return client


@pytest.mark.parametrize("header", [PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"], ids=["0-9-1", "0-9"])
def test_a_header_is_answered_with_start_also_if_it_comes_in_pieces(broker: Peer, header: bytes) -> None:
    client = broker.dial()
    for byte in header:
        client.raw(bytes((byte,)))
    start = client.next()
    assert isinstance(start, Connection.Start) and (start.version_major, start.version_minor) == (0, 9)
    assert "PLAIN" in start.mechanisms.split() and start.locales.split() == ["en_US"]


@pytest.mark.parametrize(
    "sent", [b"AMQP\x01\x01\x64\x03", b"AMQP\x00\x64\x03\x00", b"GET / HT", b"\x16\x03\x01\x02\x00\x01\x00\x01"]
)
def test_a_header_of_no_known_version_is_answered_with_a_header_and_the_end(broker: Peer, sent: bytes) -> None:
    client = broker.dial()
    client.raw(sent)
    answer = client.read_bytes(9)
    assert len(answer) == 8 and answer.startswith(b"AMQP")
    assert client.ended


@pytest.mark.parametrize("version", [b"\x00\x00\x09\x02", b"\x00\x00\x0a\x00"])
def test_a_neighbouring_version_is_answered_with_ours(broker: Peer, version: bytes) -> None:
    client = broker.dial()
    client.raw(b"AMQP" + version)
    assert client.read_bytes(9) == b"AMQP\x00\x00\x09\x01"
    assert client.ended


def test_server_properties_say_who_serves_and_what_it_can(broker: Peer) -> None:
    properties = started(broker).server_properties
    assert {"product", "version", "platform", "cluster_name", "copyright", "information"} <= set(properties)
    assert [properties["capabilities"].get(name) for name in CAPABILITIES] == [True] * 9
    major, minor, patch = properties["version"].split(".")
    assert major.isdigit() and minor.isdigit() and patch[:1].isdigit()


def logged_in(broker: Peer, mechanism: str, user: str, password: str) -> Client:
    client = started(broker)
    by_table = codec.pairs({"LOGIN": user, "PASSWORD": password})
    client.login(mechanism, f"\0{user}\0{password}" if mechanism == "PLAIN" else by_table)
    return client


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_guest_is_let_in_with_the_password_alone(broker: Peer, mechanism: str) -> None:
    client = logged_in(broker, mechanism, "guest", "guest")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    for user, password in (("guest", "wrong"), ("guest", ""), ("nobody", "guest")):
        client = logged_in(broker, mechanism, user, password)
        closed = client.expect_close(403)
        assert closed.reply_text == LOGIN_REFUSED.format(mechanism)
        assert (closed.class_id, closed.method_id) == (0, 0)
        client.expect_eof()


def test_a_client_that_cannot_be_told_of_a_refused_login_is_dropped_after_three_seconds(broker: Peer) -> None:
    client = started(broker)
    client.login("PLAIN", "\0guest\0wrong", capabilities={})
    client.nothing_for(2500)
    client.expect_eof(1500)


@pytest.mark.in_process("anonymous logins are a setting")
def test_anonymous_logs_in_as_the_configured_user(broker: Peer) -> None:
    assert "ANONYMOUS" not in broker.dial().start().mechanisms.split()
    broker.settings(auth_mechanisms=("PLAIN", "ANONYMOUS"), anonymous_login_user="guest", anonymous_login_pass="guest")
    client = broker.dial()
    assert "ANONYMOUS" in client.start().mechanisms.split()
    client.login("ANONYMOUS", "whatever")
    client.tune()
    client.call(Connection.Open, virtual_host="/")


@pytest.mark.parametrize(
    ("mechanism", "response"), [("NOPE", ""), ("PLAIN", "guest"), ("PLAIN", "\0guest"), ("AMQPLAIN", b"\x05LOG")]
)
def test_an_unknown_mechanism_or_response_ends_the_connection(broker: Peer, mechanism: str, response: Any) -> None:
    client = started(broker)
    client.login(mechanism, response)
    came = client.read_to_end(7000)
    assert not any(isinstance(item, Connection.Tune) for item in came)


@pytest.mark.parametrize("response", ["", "guest"])
def test_a_plain_response_without_a_name_is_closed_after_three_seconds(broker: Peer, response: str) -> None:
    client = started(broker)
    client.login("PLAIN", response)
    client.nothing_for(2500)
    client.expect_eof(1500)


@pytest.mark.in_process("the peer address is chosen")
def test_guest_may_come_from_this_machine_only(broker: Peer) -> None:
    client = started(broker, address="192.0.2.7")
    client.login("PLAIN", "\0guest\0guest")
    assert client.expect_close(403).reply_text == LOGIN_REFUSED.format("PLAIN")


def test_tune_proposes_the_limits_of_rabbitmq(broker: Peer) -> None:
    proposed = tuning(broker).tune()
    assert (proposed.channel_max, proposed.frame_max, proposed.heartbeat) == (2047, 131072, 60)


def test_the_channel_after_the_negotiated_last_is_refused(broker: Peer) -> None:
    client = broker.connect(channel_max=64)
    for number in range(100, 164):  # the count matters, not the number
        client.channel(number)
    client.unopened(7).send(ChannelMethods.Open)
    closed = client.expect_close(530)
    text = "number of channels opened (64) has reached the negotiated channel_max (64)"
    assert closed.reply_text == f"NOT_ALLOWED - {text}"


@pytest.mark.differs("RabbitMQ drops the connection without a frame")
@pytest.mark.parametrize(("channel_max", "frame_max", "text"), [
    (2048, 131072, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
    (0, 131072, "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    (2047, 0, "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
    (2047, 131073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
    (2047, 100, "negotiated frame_max = 100 is lower than the minimum allowed value (4096)"),
])  # fmt: skip
def test_limits_beyond_the_proposed_ones_are_refused(broker: Peer, channel_max: int, frame_max: int, text: str) -> None:
    client = tuning(broker)
    client.tune(channel_max, frame_max)
    closed = client.expect_close(530)
    assert closed.reply_text == f"NOT_ALLOWED - {text}"
    assert (closed.class_id, closed.method_id) == (10, 30)


def test_a_start_ok_above_the_first_frame_limit_ends_the_connection(broker: Peer) -> None:
    client = started(broker)
    client.login("PLAIN", "\0guest\0guest", properties={"filler": "x" * 9000})
    came = client.read_to_end(3500)
    assert not any(isinstance(item, Connection.Tune) for item in came)


@pytest.mark.parametrize("vhost", ["nowhere", ""])
def test_an_unknown_vhost_is_refused(broker: Peer, vhost: str) -> None:
    client = tuning(broker)
    client.tune()
    client.send(Connection.Open, virtual_host=vhost)
    closed = client.expect_close(530)
    assert closed.reply_text == f"NOT_ALLOWED - vhost {vhost} not found"
    assert (closed.class_id, closed.method_id) == (10, 40)


@pytest.mark.in_process("makes a vhost and a user")
def test_a_vhost_where_the_user_has_no_permissions_is_refused(broker: Peer) -> None:
    broker.add_vhost("private")
    client = tuning(broker)
    client.tune()
    client.send(Connection.Open, virtual_host="private")
    assert client.expect_close(530).reply_text == "NOT_ALLOWED - access to vhost 'private' refused for user 'guest'"


@pytest.mark.parametrize("channel", [0, 1])
def test_a_channel_cannot_be_opened_before_the_connection(broker: Peer, channel: int) -> None:
    client = tuning(broker)
    client.tune()
    client.unopened(1)
    client.send(ChannelMethods.Open, channel)
    client.expect_close(505 if channel else 504)


def test_a_client_that_says_goodbye_gets_close_ok_and_the_end(broker: Peer) -> None:
    client = broker.connect(heartbeat=2)
    client.channel()
    client.send(Connection.Close, reply_code=200)
    assert isinstance(client.next(), Connection.CloseOk)
    client.expect_eof(5000)


def test_a_close_that_crosses_the_servers_is_answered(client: Client, ch: Channel) -> None:
    ch.send(ChannelMethods.Flow, active=False)
    client.expect_close(540, answer=False)
    client.send(Connection.Close, reply_code=200)
    assert isinstance(client.next(), Connection.CloseOk)


def test_a_new_secret_is_accepted_and_channels_stay(client: Client, ch: Channel) -> None:
    client.call(Connection.UpdateSecret, new_secret="new", reason="it was time")
    ch.sync()


@pytest.mark.in_process("the operator is in the process")
def test_an_operator_who_closes_a_connection_is_named_as_the_cause(broker: Peer, client: Client, ch: Channel) -> None:
    broker.close_connection(client, "because I say so")
    assert client.expect_close(320).reply_text == "CONNECTION_FORCED - because I say so"
