"""Listeners and connections on real sockets: addresses, options, peers that close while blocked, deleted users."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from pamqp.commands import Connection
from pytest import MonkeyPatch

from tests.support.amqp_client import Client
from tests.support.clock import FakeClock
from tests.support.listening_server import ListeningServer
from tests.support.peer import SocketPipe
from tests.support.polling import until
from tests.support.queues import limit_dead_letters
from warren.broker.amqp.field_table import Table
from warren.broker.core.jobs.unfinished_publishes import LIMIT_BYTES
from warren.broker.core.metadata.records import Change, StoredUser, StoredVHost
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY
from warren.broker.net import peer_watcher
from warren.broker.session.methods import publish


@pytest.fixture
def listening() -> Iterator[ListeningServer]:
    server = ListeningServer()
    yield server
    server.close()


def opened(port: int, host: str = "127.0.0.1", heartbeat_s: int = 0) -> Client:
    return Client(SocketPipe(host, port)).open(heartbeat=heartbeat_s)


def test_several_listeners_serve_at_once(listening: ListeningServer) -> None:
    clients = [opened(port) for port in (listening.listen(), listening.listen())]
    assert len(listening.server.connections) == 2
    for client in clients:
        client.vanish()


def has_ipv6() -> bool:
    """Whether the machine has ::1: without, it may yet have sockets of IPv6."""
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no address ::1")
def test_any_address_is_that_of_both_protocols_and_names_are_as_rabbitmq_has_them(listening: ListeningServer) -> None:
    port = listening.listen(host="::")
    clients = [opened(port), opened(port, "::1")]
    names = sorted(connection.name for connection in listening.server.connections.values())
    assert names[0].startswith("127.0.0.1:") and names[0].endswith(f" -> 127.0.0.1:{port}")
    assert names[1].startswith("[::1]:") and names[1].endswith(f" -> [::1]:{port}")
    for client in clients:
        client.vanish()


@pytest.mark.parametrize(("heartbeat_s", "kept"), [(0, 1), (60, 0)])
def test_keepalive_replaces_heartbeats(listening: ListeningServer, heartbeat_s: int, kept: int) -> None:
    client = opened(listening.listen(), heartbeat_s=heartbeat_s)
    (transport,) = listening.server.connections
    assert transport._socket is not None
    raw = transport._socket.get_extra_info("socket")
    assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == kept
    client.vanish()


def test_an_address_in_use_is_an_error_and_leaves_nothing_open(listening: ListeningServer) -> None:
    port = listening.listen()
    with pytest.raises(OSError, match="in use"):
        listening.run(listening.server.listen("127.0.0.1", port))
    assert len(listening.server.listeners) == 1


def test_sockets_get_their_options(listening: ListeningServer) -> None:
    listening.server.socket_options.keepalive = True
    listening.server.socket_options.nodelay = False
    client = opened(listening.listen())

    def options() -> tuple[int, int]:
        (transport,) = listening.server.connections
        assert transport._socket is not None
        raw = transport._socket.get_extra_info("socket")
        return (
            raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
        )

    assert listening.call(options) == (1, 0)
    client.vanish()


# If more input is unread than the system buffers, the end of the stream does not arrive; then the answer to our
# heartbeat shows that the client has closed.
@pytest.mark.parametrize(
    ("unread_bytes", "heartbeat_s"), [(0, 0), (50_000, 0), (20_000_000, 1)], ids=["none unread", "some", "much"]
)
def test_a_lost_blocked_client_is_noticed(
    listening: ListeningServer, monkeypatch: MonkeyPatch, unread_bytes: int, heartbeat_s: int
) -> None:
    monkeypatch.setattr(peer_watcher, "LOOK_S", 0.05)
    client = opened(listening.listen(), heartbeat_s=heartbeat_s)
    ch = client.channel()
    listening.call(listening.node.alarms.set, MEMORY)
    ch.publish("", "queue", b"body")
    assert isinstance(client.next(), Connection.Blocked)
    if unread_bytes:
        client.pipe._socket.setblocking(False)  # type: ignore[attr-defined]
        client.pipe._socket.send(bytes(unread_bytes))  # type: ignore[attr-defined]
    client.vanish()
    assert listening.reported("connection_lost")["reason"] == "client unexpectedly closed TCP connection"
    # What follows the report on the loop has been done once the loop answers.
    assert listening.call(lambda: listening.node.alarms.reason and not listening.server.connections)


def test_a_lost_client_is_noticed_on_a_full_disk(listening: ListeningServer, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(peer_watcher, "LOOK_S", 0.05)
    client = opened(listening.listen())
    ch = client.channel()
    ch.declare("kept")
    ch.fill("kept", b"body")
    ch.get("kept", no_ack=False)
    node = listening.node
    vhost = node.vhosts["/"]

    def fan() -> None:
        timed = Table.of({"x-message-ttl": 100_000})
        for number in range(3_000):
            vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}", arguments=timed), "", Table.EMPTY)

    listening.call(fan)
    listening.call(node.scheduler.disk_alarm, True)
    ch.publish("amq.fanout", "", b"body")
    until(lambda: listening.call(lambda: len(node.scheduler) > 0))
    listening.call(node.alarms.set, DISK)
    client.vanish()
    assert listening.reported("connection_lost")["reason"] == "client unexpectedly closed TCP connection"
    until(lambda: listening.call(lambda: vhost.queues["kept"].ready == 1))
    listening.call(node.alarms.clear, DISK)


@pytest.mark.parametrize("holds", ["a delivery", "an exclusive queue", "nothing"])
@pytest.mark.parametrize("waits_for", ["a full queue", "unfinished publishes"])
def test_a_lost_client_is_noticed_if_it_holds_objects(
    listening: ListeningServer, monkeypatch: MonkeyPatch, waits_for: str, holds: str
) -> None:
    monkeypatch.setattr(peer_watcher, "LOOK_S", 0.05)
    monkeypatch.setattr(publish, "may_take_long", lambda *_: True)
    limit_dead_letters(monkeypatch, MANY=0)
    client = opened(listening.listen())
    ch = client.channel()
    ch.declare("work")
    full = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    ch.declare("full", arguments=full | {"x-dead-letter-routing-key": "letters"})
    ch.declare("letters")
    node = listening.node
    queues = node.vhosts["/"].queues
    if holds == "a delivery":
        ch.fill("work", b"body")
        ch.get("work", no_ack=False)
    if holds == "an exclusive queue":
        ch.declare("own", exclusive=True)
    if waits_for == "a full queue":
        queues["full"].outbox.awaits_journal = True
        ch.publish("", "full", b"rejected")
        until(lambda: listening.call(lambda: len(queues["full"].outbox) == 1))
    else:
        listening.call(node.unfinished_of("guest").begin, LIMIT_BYTES)
    (transport,) = listening.server.connections
    ch.publish("", "full", b"waits")
    assert isinstance(node.clock, FakeClock)
    until(lambda: listening.call(node.clock.advance, 1) or listening.call(lambda: not transport._reading))
    until(lambda: listening.call(lambda: transport._watched is (holds != "nothing")))
    client.vanish()
    if holds != "nothing":
        assert listening.reported("connection_lost")["reason"] == "client unexpectedly closed TCP connection"
        until(lambda: listening.call(lambda: "own" not in queues and queues["work"].ready == (holds == "a delivery")))
    queues["full"].outbox.awaits_journal = False
    if waits_for == "unfinished publishes":
        listening.call(node.unfinished_of("guest").end, LIMIT_BYTES)
    listening.call(queues["full"].schedule_pump)
    listening.call(node.pump)
    expected = 2 if waits_for == "a full queue" else holds == "nothing"
    until(lambda: listening.call(node.clock.advance, 1) or listening.call(lambda: queues["letters"].ready == expected))
    until(lambda: listening.call(lambda: not listening.server.connections))


def test_publishes_precede_a_close(listening: ListeningServer, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "may_take_long", lambda *_: True)
    client = opened(listening.listen())
    ch = client.channel()
    ch.declare("queue")
    node = listening.node
    unfinished = node.unfinished_of("guest")
    listening.call(unfinished.begin, LIMIT_BYTES)
    sent = [b"%d" % number for number in range(40)]
    for body in sent:
        ch.publish("", "queue", body)
    client.send(Connection.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    until(lambda: listening.call(lambda: len(unfinished._waiting) == 1))
    (transport,) = listening.server.connections
    assert listening.call(lambda: not transport._watched and not transport._reading)
    client.vanish()
    listening.call(unfinished.end, LIMIT_BYTES)
    assert isinstance(node.clock, FakeClock)
    listening.call(node.clock.advance, 1)
    queue = node.vhosts["/"].queues["queue"]
    until(lambda: listening.call(lambda: queue.ready == len(sent) and not listening.server.connections))


def test_a_blocked_client_is_served_later(listening: ListeningServer, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(peer_watcher, "LOOK_S", 0.05)
    client = opened(listening.listen())
    ch = client.channel()
    ch.declare("queue")
    listening.call(listening.node.alarms.set, MEMORY)
    ch.publish("", "queue", b"body")
    assert isinstance(client.next(), Connection.Blocked)
    client.nothing_for(200)
    listening.call(listening.node.alarms.clear, MEMORY)
    assert isinstance(client.next(), Connection.Unblocked)
    assert ch.drain("queue") == [b"body"]
    client.vanish()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (StoredUser("guest", "", ()), "CONNECTION_FORCED - user 'guest' is deleted"),
        (StoredVHost("/", "", (), "", False), "CONNECTION_FORCED - vhost '/' is deleted"),
    ],
    ids=["user", "vhost"],
)
def test_deletions_close_connections(listening: ListeningServer, record: StoredUser | StoredVHost, reason: str) -> None:
    client = opened(listening.listen())
    changed = type(record)(*(["other"] + [getattr(record, name) for name in list(record.__slots__)[1:]]))

    def tell(change: Change) -> None:
        for observer in listening.node.observers:
            observer.configured(change)

    listening.call(tell, Change(True, record))
    listening.call(tell, Change(False, changed))
    client.nothing_for(50)
    listening.call(tell, Change(False, record))
    assert client.expect_close(320).reply_text == reason
    client.vanish()


def test_an_operator_closes_by_name_and_each_has_a_number_of_its_own(listening: ListeningServer) -> None:
    port = listening.listen()
    first, second = opened(port), opened(port)
    one, two = listening.server.connections.values()
    assert one.id != two.id and one.connected_at_ms <= two.connected_at_ms
    closed = listening.call(listening.server.close_connections, lambda each: each.name == one.name, "enough")
    assert closed == 1 and first.expect_close(320).reply_text == "CONNECTION_FORCED - enough"
    second.channel()
    first.vanish()
    second.vanish()


def test_the_first_delivery_comes_in_a_later_write_than_consume_ok(listening: ListeningServer) -> None:
    """A client that waits for its socket before it reads its own buffer would not notice it."""
    client = opened(listening.listen())
    channel = client.channel(1)
    channel.declare("q")
    channel.publish("", "q", b"body")
    channel.publish("", "q", b"body")
    channel.sync()
    [connection] = listening.server.connections.values()
    before = listening.call(lambda: connection.sent_writes)
    channel.consume("q", no_ack=True)
    channel.deliveries(2)
    assert listening.call(lambda: connection.sent_writes) == before + 2
    client.vanish()
