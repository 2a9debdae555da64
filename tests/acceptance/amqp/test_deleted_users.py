"""Connections of deleted users and virtual hosts, and consumers without a right. Also the list of connections."""

import pytest
from pamqp.commands import Basic, Connection, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.in_process import InProcessPeer, socket_of
from warren.broker.core.access.passwords import hash_password

pytestmark = pytest.mark.in_process("users, virtual hosts and alarms are changed inside the broker")

USER_TEXT = "CONNECTION_FORCED - user 'u' is deleted"
VHOST_TEXT = "CONNECTION_FORCED - vhost 'v' is deleted"


def of_user(broker: InProcessPeer) -> Client:
    """Return a connection of `u` to the vhost `v`."""
    broker.node.add_vhost("v")
    broker.node.users.add("u", hash_password("u", b"salt"))
    broker.node.users.set_permission("u", "v", ".*", ".*", ".*")
    return broker.connect("u", "u", "v")


def delete(broker: InProcessPeer, what: str) -> str:
    """Delete the user or the vhost, and return the reason that its connections are sent."""
    if what == "user":
        broker.node.users.delete("u")
        return USER_TEXT
    broker.node.delete_vhost("v")
    return VHOST_TEXT


@pytest.mark.parametrize("what", ["user", "vhost"])
def test_only_its_connections_end(broker: InProcessPeer, client: Client, ch: Channel, what: str) -> None:
    victims = [of_user(broker), broker.connect("u", "u", "v")]
    text = delete(broker, what)
    for victim in victims:
        closed = victim.expect_close(320)
        assert (closed.reply_text, closed.class_id, closed.method_id) == (text, 0, 0)
        victim.expect_eof()
    ch.sync()
    assert list(broker.server.connections) == [socket_of(client).transport]
    census = broker.node.connection_counts
    assert (broker.node.open_connections, census.of_user("u"), census.in_vhost("v")) == (1, 0, 0)
    newcomer = broker.dial()
    newcomer.start()
    newcomer.login("PLAIN", "\0u\0u")
    if what == "user":
        newcomer.expect_close(403)
    else:
        newcomer.tune()
        newcomer.send(Connection.Open, virtual_host="v")
        assert newcomer.expect_close(530).reply_text == "NOT_ALLOWED - vhost v not found"


def test_what_a_deleted_user_held_goes_back_before_it_is_told(broker: InProcessPeer) -> None:
    victim = of_user(broker).channel()
    broker.node.users.set_permission("guest", "v", ".*", ".*", ".*")
    other = broker.connect(vhost="v").channel()
    other.declare("q")
    other.fill("q", b"one", b"two")
    victim.declare("own", exclusive=True)
    victim.consume("q")
    victim.deliveries(2)
    delete(broker, "user")
    assert other.drain("q") == [b"one", b"two"]
    other.refused(404, Queue.Declare, queue="own", passive=True)
    victim.client.expect_close(320)


def test_a_vhost_that_is_made_again_has_nothing_of_the_one_before(broker: InProcessPeer) -> None:
    victim = of_user(broker).channel()
    victim.declare("q", durable=True)
    victim.publish("", "q", b"body")
    victim.sync()
    delete(broker, "vhost")
    broker.node.add_vhost("v")
    newcomer = broker.dial()
    newcomer.start()
    newcomer.login("PLAIN", "\0u\0u")
    newcomer.tune()
    newcomer.send(Connection.Open, virtual_host="v")
    assert newcomer.expect_close(530).reply_text == "NOT_ALLOWED - access to vhost 'v' refused for user 'u'"
    broker.node.users.set_permission("u", "v", ".*", ".*", ".*")
    broker.connect("u", "u", "v").channel().refused(404, Queue.Declare, queue="q", passive=True)
    victim.client.expect_close(320)


@pytest.mark.parametrize("what", ["user", "vhost"])
def test_who_waits_for_the_end_of_an_alarm_goes_too_and_publishes_no_more(broker: InProcessPeer, what: str) -> None:
    victim = of_user(broker).channel()
    victim.declare("q")
    broker.node.alarms.set("disk")
    victim.publish("", "q", b"held")
    assert victim.client.next().name == "Connection.Blocked"
    queue = broker.node.vhosts["v"].queues["q"]
    text = delete(broker, what)
    assert victim.client.expect_close(320).reply_text == text
    victim.client.expect_eof()
    broker.node.alarms.clear("disk")
    broker.settle()
    assert queue.published == 0


def test_who_has_logged_in_and_not_opened_a_vhost_yet_goes_too(broker: InProcessPeer) -> None:
    of_user(broker)
    tuning = broker.dial()
    tuning.start()
    tuning.login("PLAIN", "\0u\0u")
    assert isinstance(tuning.next(), Connection.Tune)
    delete(broker, "user")
    assert tuning.expect_close(320).reply_text == USER_TEXT


def test_a_connection_is_listed_with_the_name_that_its_client_gave_it(broker: InProcessPeer) -> None:
    named = broker.connect(properties={"connection_name": "orders"})
    broker.connect()
    listed = {one.client_name: one for one in broker.server.connections.values()}
    assert set(listed) == {"orders", ""}
    assert listed["orders"].name == "127.0.0.1:50000 -> 127.0.0.1:5672"
    assert (listed["orders"].state_text, str(listed["orders"].vhost)) == ("running", "vhost '/'")
    named.close()
    broker.settle()
    assert [one.client_name for one in broker.server.connections.values()] == [""]


def test_a_user_without_the_right_to_read_a_queue_loses_its_consumers(broker: InProcessPeer) -> None:
    broker.connect().channel().declare("q")
    broker.add_user("u", (), ("", "", ".*"))
    ch = broker.connect("u", "u").channel()
    ch.consume("q", consumer_tag="mine")
    broker.node.users.set_permission("u", "/", "", "", "^q$")
    ch.nothing()
    broker.node.users.set_permission("u", "/", "", "", "^other$")
    cancelled = ch.next()
    assert isinstance(cancelled, Basic.Cancel) and cancelled.consumer_tag == "mine"
    assert not len(broker.node.vhosts["/"].queues["q"].consumers)
