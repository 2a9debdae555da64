"""Connections to upstreams, over TCP and to this very broker, and the methods of their channels."""

import asyncio
import gc
import logging
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiormq.base
import pytest
from pamqp.commands import Basic

from tests.support.polling import until_async
from tests.support.upstream_broker import NAME, PATIENCE_S, UpstreamBroker, on_each_loop, typed
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import hash_password
from warren.broker.session.connection import Connection
from warren.federation.upstream import connection as federation_dialling
from warren.federation.upstream.channel import WINDOW, UpstreamChannel
from warren.federation.upstream.connection import WAITS_FOR_CANCEL_OK, EventDispatcher
from warren.federation.upstream.endpoint import Secret, parse_endpoint
from warren.federation.upstream.errors import LinkError
from warren.federation.upstream.handshake import AiormqConnection, PlainConnection
from warren.federation.upstream.transport import UpstreamTransport

pytestmark = pytest.mark.sockets

PASSWORD = "pass word/%ä" * 12  # more bytes than a length below 128 can express


@on_each_loop
async def test_messages_come_and_are_acknowledged_over_tcp_and_from_within(site: UpstreamBroker) -> None:
    for one in (site.at(), site.inside(), site.inside("guest:guest@"), parse_endpoint("amqp://")):
        site.deliveries.clear()
        connection = await site.dial(one)
        assert (connection.cluster_name, connection.direct) == (site.node.cluster_name, one.direct)
        assert (connection.vhost, connection.safe_uri) == ("/", one.safe)
        assert "basic.nack" in connection.capabilities and connection.server_properties["product"] == "RabbitMQ"
        channel = await connection.channel()
        assert await channel.declare_queue("q", durable=True) == (0, 0)
        await channel.qos(3)
        await channel.consume("q", "", False, Table.EMPTY)
        site.publish("q", b"one", b"two", b"x" * 300_000, b"beyond the prefetch")
        deliveries = await site.taken(3)
        assert [delivery.body_bytes for delivery in deliveries] == [3, 3, 300_000]
        [tag] = {delivery.consumer_tag.decode() for delivery in deliveries}
        assert await channel.declare_queue("q", durable=True, passive=True) == (1, 1)
        connection.transport.ack(channel.number, 3, True)
        await site.taken(4)
        connection.transport.nack(channel.number, 4, False)
        await until_async(lambda: not site.node.vhosts["/"].queues["q"].unacked)
        channel.cancel(tag)
        await channel.delete_queue("q")
        await connection.close(PATIENCE_S)
        assert connection.ended.done()


@on_each_loop
async def test_things_upstream_are_made_bound_and_removed_with_exact_arguments(site: UpstreamBroker) -> None:
    connection = await site.dial()
    channel: UpstreamChannel = await connection.channel()
    vhost = site.node.vhosts["/"]
    arguments = typed(a=("l", 1), b=("s", 2), c=("S", b"\xff"), d=("F", typed(e=("b", 3))))
    await channel.declare_exchange(
        "odd name ä*" * 12, "topic", durable=True, auto_delete=True, internal=True, arguments=arguments
    )
    made = vhost.exchanges["odd name ä*" * 12]
    assert made.arguments.raw == arguments.raw
    assert (made.durable, made.auto_delete, made.internal) == (True, True, True)
    await channel.declare_exchange("x", "fanout")
    await channel.declare_queue("q", durable=True, arguments=typed(x_expires=("l", 60_000)))
    assert vhost.queues["q"].arguments.raw == typed(x_expires=("l", 60_000)).raw
    await channel.bind_queue("q", "x", "k", arguments)
    [binding] = vhost.exchanges["x"].outgoing.values()
    assert (binding.routing_key, binding.arguments.raw) == ("k", arguments.raw)
    await channel.bind_many("x", "amq.topic", [("a.#", arguments)])
    [binding] = vhost.exchanges["amq.topic"].outgoing.values()
    assert (binding.routing_key, binding.arguments.raw) == ("a.#", arguments.raw)
    await channel.bind_many("x", "amq.topic", [("b", Table.EMPTY)], nowait=True)
    await channel.bind_many("x", "amq.topic", [("a.#", arguments)], nowait=True, unbind=True)
    await channel.bind_many("x", "amq.topic", [("b", Table.EMPTY)], unbind=True)
    assert not vhost.exchanges["amq.topic"].outgoing
    await channel.delete_exchange("x")
    await channel.delete_queue("q")
    await channel.delete_queue("q")
    assert "x" not in vhost.exchanges and "q" not in vhost.queues
    await connection.close(PATIENCE_S)


@pytest.mark.parametrize("nowait", [False, True])
@on_each_loop
async def test_many_bindings_go_at_once(site: UpstreamBroker, nowait: bool) -> None:
    connection = await site.dial()
    channel = await connection.channel()
    await channel.declare_exchange("x", "fanout")
    items = [(f"key.{number}", typed(n=("l", number))) for number in range(2 * WINDOW + 1)]
    await channel.bind_many("x", "amq.topic", items, nowait)
    assert len(site.node.vhosts["/"].exchanges["amq.topic"].outgoing) == len(items)
    await channel.bind_many("x", "amq.topic", items, nowait, unbind=True)
    assert not site.node.vhosts["/"].exchanges["amq.topic"].outgoing
    await channel.bind_many("x", "amq.topic", [], nowait)
    large = typed(s=("S", b"x" * 10_000))
    await channel.bind_many("x", "amq.topic", [(f"{number}", large) for number in range(1000)], nowait)
    assert len(site.node.vhosts["/"].exchanges["amq.topic"].outgoing) == 1000
    with pytest.raises(LinkError, match="no exchange 'gone'"):
        await channel.bind_many("x", "gone", items, nowait)
    assert (await channel.ended).code == 404
    await connection.close(PATIENCE_S)


@on_each_loop
async def test_what_the_upstream_refuses_ends_the_channel_and_not_the_connection(site: UpstreamBroker) -> None:
    connection = await site.dial()
    for _ in range(3):
        channel = await connection.channel()
        with pytest.raises(LinkError, match="NOT_FOUND - no exchange 'gone' in vhost '/'") as caught:
            await channel.declare_exchange("gone", "topic", passive=True)
        assert caught.value.code == (await channel.ended).code == 404
        with pytest.raises(LinkError, match="no exchange 'gone'"):
            await channel.qos(1)
        with pytest.raises(LinkError, match="no exchange 'gone'"):
            channel.cancel("tag")
        await channel.close()
    assert (await connection.channel()).number == 1
    with pytest.raises(LinkError, match="256 bytes"):
        await (await connection.channel()).delete_queue("q" * 256)
    assert not connection.ended.done()
    await connection.close(PATIENCE_S)


@on_each_loop
async def test_a_cancelled_consumer_is_answered_on_request(
    site: UpstreamBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.server.settings.server_properties = site.server.settings.server_properties.with_items(
        [("capabilities", ("F", Table.of({"consumer_cancel_notify": True, WAITS_FOR_CANCEL_OK: True})))]
    )
    connection = await site.dial()
    channel = await connection.channel()
    cancelled: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    channel.cancelled = cancelled.set_result
    await channel.declare_queue("q")
    await channel.consume("q", "mine", True, Table.EMPTY, nowait=True)
    await channel.qos(1)  # the upstream has seen it all when it answers this
    sent: list[tuple[int, int, bytes]] = []
    monkeypatch.setattr(connection.transport, "send", lambda *method: sent.append(method))
    site.node.vhosts["/"].delete_queue(site.node.vhosts["/"].queues["q"])
    site.node.pump()
    assert await asyncio.wait_for(cancelled, PATIENCE_S) == "mine"
    assert sent == [(channel.number, Basic.CancelOk.index, b"\x04mine")]
    monkeypatch.undo()
    await channel.qos(1)
    await connection.close(PATIENCE_S)


@pytest.mark.parametrize("mechanism", ["plain", "amqplain"])
@on_each_loop
async def test_any_password_logs_in_by_either_mechanism(site: UpstreamBroker, mechanism: str) -> None:
    site.node.users.add("wärter", hash_password(PASSWORD, b"salt"))
    site.node.users.set_permission("wärter", "/", ".*", ".*", ".*")
    one = replace(site.at(), user="wärter", password=Secret(PASSWORD), mechanisms=(mechanism,))
    connection = await site.dial(one)
    assert site.connection().mechanism == mechanism.upper()
    await connection.close(PATIENCE_S)
    for fault in (
        await site.fault(replace(one, password=Secret(PASSWORD + "!"))),
        await site.fault(parse_endpoint("amqp://guest:" + "secret" + "@/%2f")),
    ):
        assert (fault.code, "Login was refused" in fault.text) == (403, True)
        assert "secret" not in fault.text and PASSWORD not in fault.text
    fault = await site.fault(replace(one, mechanisms=("external", "anonymous")))
    assert fault.text == "the upstream offers no login by EXTERNAL or ANONYMOUS, only by PLAIN AMQPLAIN"


@pytest.mark.parametrize("name", ["%2F", "a/b", "a b%", "é" * 100, "\\"])
@on_each_loop
async def test_a_virtual_host_may_have_any_name(site: UpstreamBroker, name: str) -> None:
    site.node.add_vhost(name)
    site.node.users.set_permission("guest", name, ".*", ".*", ".*")
    for one in (site.at(), site.inside()):
        connection = await site.dial(replace(one, vhost=name))
        vhost = site.connection().vhost
        assert vhost is not None and vhost.name == name
        await connection.close(PATIENCE_S)
    for one in (site.at(), site.inside()):
        assert "vhost  not found" in (await site.fault(replace(one, vhost=""))).text
        assert (await site.fault(replace(one, vhost="nowhere"))).code == 530


@on_each_loop
async def test_limits_of_the_uri_are_agreed_on_and_the_upstream_sees_who_we_are(site: UpstreamBroker) -> None:
    connection = await site.dial(site.at("heartbeat=30&channel_max=5&frame_max=8192"))
    there = site.connection()
    assert (there.heartbeat_s, there.channel_max, there.frame_max) == (30, 5, 8192)
    assert connection.transport.parser.frame_max == 8192
    assert connection.transport._heartbeat_timer is not None, "its silence is not noticed"
    assert there.client_name == NAME and there.client_properties.text("product") == "Warren"
    wanted = {"authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"}
    assert there.capabilities >= wanted | {"publisher_confirms", "exchange_exchange_bindings"}
    await connection.close(PATIENCE_S)
    connection = await site.dial(site.at("heartbeat=0"))
    there = site.connection()
    assert (there.heartbeat_s, there.frame_max) == (0, site.config.frame_max)
    assert connection.transport._heartbeat_timer is None
    await connection.close(PATIENCE_S)


@on_each_loop
async def test_the_upstream_hears_a_goodbye_even_from_a_link_that_does_not_read(site: UpstreamBroker) -> None:
    connection = await site.dial()
    connection.transport.hold()
    await connection.close(PATIENCE_S)
    await until_async(lambda: not site.server.connections)
    events = [event for event, _, _ in site.log]
    assert "connection_closed" in events and "connection_lost" not in events


@on_each_loop
async def test_a_connection_that_the_upstream_ends_fails_all_that_waits(site: UpstreamBroker) -> None:
    connection = await site.dial()
    channel = await connection.channel()
    call = asyncio.ensure_future(channel.declare_queue("q"))
    site.host.close_connections(lambda one: True, "enough")
    assert await asyncio.wait_for(asyncio.shield(connection.ended), PATIENCE_S) == "CONNECTION_FORCED - enough"
    with pytest.raises(LinkError, match="enough") as caught:
        await call
    assert caught.value.code == 320
    with pytest.raises(LinkError, match="enough"):
        await connection.channel()
    await channel.close()
    await connection.close(PATIENCE_S)


@pytest.fixture
def silence(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert not [record for record in caplog.records if record.name.partition(".")[0] in ("aio_pika", "aiormq", "pamqp")]
    assert "secret" not in caplog.text


@pytest.mark.usefixtures("silence")
@on_each_loop
async def test_aio_pika_says_nothing_by_itself(site: UpstreamBroker) -> None:
    await site.fault(parse_endpoint(f"amqp://guest:secret@127.0.0.1:{site.port}/%2f"))
    connection = await site.dial()
    site.host.close_connections(lambda one: True, "enough")
    await asyncio.wait_for(asyncio.shield(connection.ended), PATIENCE_S)
    await connection.close(PATIENCE_S)


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port whose system takes no more connections and answers nothing, like a host without a route."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    address = listener.getsockname()
    waiting = [socket.socket() for _ in range(4)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(address)
    yield address[1]
    for one in (listener, *waiting):
        one.close()


@on_each_loop
async def test_a_silent_address_is_given_up(site: UpstreamBroker, deaf: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation_dialling, "CONNECT_S", 0.1)
    with pytest.raises(LinkError, match="timeout"):
        async with asyncio.timeout(PATIENCE_S):
            await site.dial(parse_endpoint(f"amqp://127.0.0.1:{deaf}?connection_timeout=3600000"))


@on_each_loop
async def test_the_next_address_is_tried(site: UpstreamBroker, deaf: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation_dialling, "CONNECT_S", 0.1)

    def addresses() -> Iterator[Any]:
        head = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        yield (*head, ("127.0.0.1", deaf))
        monkeypatch.setattr(federation_dialling, "CONNECT_S", PATIENCE_S)
        yield (*head, ("127.0.0.1", site.port))

    async def two_addresses(host: str, port: int, *, type: int) -> Iterator[Any]:
        assert (host, port) == ("two.example", 5672)
        return addresses()

    monkeypatch.setattr(federation_dialling, "resolve", two_addresses)
    connection = await site.dial(parse_endpoint("amqp://two.example/%2f"))
    await connection.close(PATIENCE_S)


@on_each_loop
async def test_a_connection_that_is_collected_before_it_was_closed_starts_no_task(site: UpstreamBroker) -> None:
    before = asyncio.all_tasks()
    transport = UpstreamTransport(EventDispatcher(site.host, site.take), 1)
    PlainConnection(AiormqConnection(transport, site.at(), "/", Table.EMPTY))
    gc.collect()
    assert asyncio.all_tasks() == before


ENDS = [
    "is refused",
    "begins no AMQP",
    "begins and ends",
    "does not log in",
    "is closed here",
    "is closed there",
    "is lost",
]


async def end_a_connection(site: UpstreamBroker, end: str) -> None:
    failing = {"is refused": b"", "begins no AMQP": b"", "begins and ends": b"\1\0\0"}
    if end in failing:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(failing[end])
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = 1 if end == "is refused" else server.sockets[0].getsockname()[1]
            with suppress(LinkError):
                await site.dial(parse_endpoint(f"amqp://127.0.0.1:{port}"))
        return
    if end == "does not log in":
        with suppress(LinkError):
            await site.dial(replace(site.at(), password=Secret("wrong")))
        return
    connection = await site.dial()
    channel = await connection.channel()
    await channel.declare_queue("q")
    await (await connection.channel()).close()
    if end == "is closed there":
        site.host.close_connections(lambda one: True, "bye")
    elif end == "is lost":
        connection.transport.abort("lost")
    if end != "is closed here":
        await connection.ended
    await connection.close(PATIENCE_S)


def objects_of_connections() -> list[Any]:
    kinds = (UpstreamTransport, PlainConnection, AiormqConnection, aiormq.base.FutureStore, Connection)
    return [one for one in gc.get_objects() if isinstance(one, kinds)]


@pytest.mark.parametrize("end", ENDS)
@on_each_loop
async def test_an_ended_connection_leaves_no_cycles(
    site: UpstreamBroker, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A full collection, which alone would free them, takes long with very many links."""
    monkeypatch.setattr(federation_dialling, "RELEASE_S", 0.05)
    gc.collect()
    gc.disable()
    before = objects_of_connections()  # of other tests: a collection keeps what a finalizer has made reachable again

    def left() -> set[str]:
        objects = objects_of_connections()
        return {type(one).__qualname__ for one in objects if all(one is not other for other in before)}

    try:
        await end_a_connection(site, end)
        await until_async(lambda: not left(), left)
    finally:
        gc.enable()
