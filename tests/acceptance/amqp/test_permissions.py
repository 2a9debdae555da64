"""Permissions by names and routing keys, and limits of connections, channels and queues.

The complete table, method by method, is in tests/unit/session/test_permission_matrix.py.
"""

import pytest
from pamqp.commands import Basic, Connection, Exchange, Queue
from pamqp.commands import Channel as ChannelMethods

from tests.support.amqp_client import Channel, Client
from tests.support.in_process import InProcessPeer

pytestmark = pytest.mark.in_process("makes users and gives them rights")


def channel_of(broker: InProcessPeer, configure: str, write: str, read: str) -> Channel:
    """Return a channel of a user with these permissions; the objects are guest's."""
    ch = broker.connect().channel()
    ch.exchange("x", "fanout")
    ch.declare("q")
    broker.add_user("u", (), (configure, write, read))
    return broker.connect("u", "u").channel()


def reopened(ch: Channel) -> Channel:
    return ch.client.channel()


def test_what_is_configured_is_asked_for(broker: InProcessPeer) -> None:
    ch = channel_of(broker, "^mine", "", "")
    ch.exchange("mine")
    ch.declare("mine")
    for kind, fields in (
        (Exchange.Declare, {"exchange": "yours", "exchange_type": "direct"}),
        (Exchange.Delete, {"exchange": "x"}),
        (Queue.Declare, {"queue": "yours"}),
        (Queue.Delete, {"queue": "q"}),
    ):
        closed = reopened(ch).refused(403, kind, **fields)
        assert "configure access to" in closed.reply_text and "refused for user 'u'" in closed.reply_text


def test_what_is_written_and_read_is_asked_for(broker: InProcessPeer) -> None:
    ch = channel_of(broker, "", "^(x|q)$", "")
    ch.publish("x", "")
    ch.sync()
    ch.publish("", "q")
    assert ch.expect_close(403).reply_text == (
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'u'"
    )
    reopened(ch).refused(403, Queue.Bind, queue="q", exchange="x", routing_key="")
    for kind in (Basic.Get, Basic.Consume, Queue.Purge):
        closed = reopened(ch).refused(403, kind, queue="q")
        assert closed.reply_text == "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'u'"


def test_alternate_and_dead_letter_exchanges_need_reading_here_and_writing_there(broker: InProcessPeer) -> None:
    ch = channel_of(broker, ".*", "^x$", "^(read|q)")
    alternate, dead = {"alternate-exchange": "x"}, {"x-dead-letter-exchange": "x"}
    ch.exchange("read-this", arguments=alternate)
    ch.declare("read-that", arguments=dead)
    reopened(ch).refused(403, Exchange.Declare, exchange="other", exchange_type="direct", arguments=alternate)
    reopened(ch).refused(403, Queue.Declare, queue="other", arguments=dead)
    elsewhere = {"alternate-exchange": "amq.fanout"}
    reopened(ch).refused(403, Exchange.Declare, exchange="read-it", exchange_type="direct", arguments=elsewhere)


def test_without_any_right_nothing_is_possible_but_the_connection(broker: InProcessPeer) -> None:
    ch = channel_of(broker, "", "", "")
    ch.transact()
    ch.qos(1)
    reopened(ch).refused(403, Queue.Declare, queue="new")
    reopened(ch).refused(403, Queue.Declare, queue="q", passive=True)


@pytest.mark.parametrize("rights", [("^(q|x)$", "", ""), ("", "^(q|x)$", ""), ("", "", "^(q|x)$")])
def test_any_one_right_is_enough_to_declare_passively(broker: InProcessPeer, rights: tuple[str, str, str]) -> None:
    ch = channel_of(broker, *rights)
    ch.declare("q", passive=True)
    ch.exchange("x", "fanout", passive=True)
    closed = reopened(ch).refused(403, Queue.Declare, queue="other", passive=True)
    assert "configure access to queue 'other'" in closed.reply_text


def test_topic_permissions_are_asked_for_on_publish_and_bind_of_topic_exchanges_alone(broker: InProcessPeer) -> None:
    ch = channel_of(broker, ".*", ".*", ".*")
    for exchange in ("amq.topic", "amq.direct"):
        broker.node.users.set_topic_permission("u", "/", exchange, "^{username}\\.", "^{username}\\.")
    ch.bind("q", "amq.topic", "u.*")
    ch.publish("amq.topic", "u.a", b"1")
    ch.bind("q", "amq.direct", "other")
    ch.publish("amq.direct", "other", b"2")
    assert ch.drain("q") == [b"1", b"2"]
    reopened(ch).refused(403, Queue.Bind, queue="q", exchange="amq.topic", routing_key="#")
    ch.publish("amq.topic", "v.a")
    text = "write access to topic 'v.a' in exchange 'amq.topic' in vhost '/' refused for user 'u'"
    assert text in ch.expect_close(403).reply_text


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_topic_permissions_look_at_keys_in_headers_too(broker: InProcessPeer, header: str) -> None:
    ch = channel_of(broker, ".*", ".*", ".*")
    broker.node.users.set_topic_permission("u", "/", "amq.topic", "^u", ".*")
    ch.publish("amq.topic", "u.a", b"", {"headers": {header: ["u.b"]}})
    ch.sync()
    ch.publish("amq.topic", "u.a", b"", {"headers": {header: ["u.b", "v"]}})
    assert "write access to topic 'v'" in ch.expect_close(403).reply_text


def test_who_may_only_read_consumes_and_does_not_publish(broker: InProcessPeer) -> None:
    ch = channel_of(broker, "", "", ".*")
    ch.consume("q")
    broker.connect().channel().publish("", "q", b"for you")
    assert ch.delivery().body == b"for you"
    ch.publish("", "q", b"from you")
    ch.expect_close(403)


def test_who_loses_the_right_to_read_a_queue_loses_the_consumers_of_it(broker: InProcessPeer) -> None:
    ch = channel_of(broker, "", "", ".*")
    ch.consume("q", consumer_tag="mine")
    broker.node.users.set_permission("u", "/", "", "", "^q$")
    ch.nothing()
    broker.node.users.set_permission("u", "/", "", "", "^other$")
    cancelled = ch.next()
    assert isinstance(cancelled, Basic.Cancel) and cancelled.consumer_tag == "mine"
    assert not len(broker.node.vhosts["/"].queues["q"].consumers)


def refused(broker: InProcessPeer, user: str) -> str:
    """Return the text with which one more connection is refused."""
    client = broker.dial()
    client.start()
    client.login("PLAIN", f"\0{user}\0{user}")
    client.tune()
    client.send(Connection.Open, virtual_host="/")
    return str(client.expect_close(530).reply_text)


def test_a_virtual_host_has_so_many_connections_and_queues(broker: InProcessPeer) -> None:
    limits = broker.node.limits
    limits.set_vhost("/", {"max-connections": 0})
    assert "connection limit (0) is reached" in refused(broker, "guest")
    limits.set_vhost("/", {"max-connections": 1, "max-queues": 1})
    ch = broker.connect().channel()
    assert "connection limit (1) is reached" in refused(broker, "guest")
    ch.declare("q")
    ch.declare("q")
    assert "queue limit in vhost '/' (1) is reached" in ch.refused(406, Queue.Declare, queue="more").reply_text
    limits.set_vhost("/", {"max-queues": 0})
    ch = reopened(ch)
    ch.declare("q")
    ch.refused(406, Queue.Declare, queue="more")


def test_a_user_has_so_many_connections_and_channels(broker: InProcessPeer) -> None:
    broker.add_user("u")
    broker.node.limits.set_user("u", {"max-connections": 1, "max-channels": 1})
    client: Client = broker.connect("u", "u")
    assert "user connection limit (1) is reached" in refused(broker, "u")
    client.channel()
    client.unopened(2).send(ChannelMethods.Open)
    assert "maximum allowed user limit of 1" in client.expect_close(530).reply_text
