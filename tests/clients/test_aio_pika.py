"""aio-pika (and aiormq below it), plain and robust connections. Mirrors aio-pika's own tests (test_amqp, test_rpc)."""

import asyncio
import datetime
import uuid

import aio_pika
import aiormq
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError, QueueEmpty
from aio_pika.patterns import RPC


@pytest.fixture
async def connection(names, broker_url):
    connection = await aio_pika.connect(broker_url)
    yield connection
    await connection.close()


@pytest.fixture
async def channel(connection):
    """A channel with confirms: each publish returns once the broker has confirmed it."""
    return await connection.channel()


@pytest.fixture
async def queue(channel):
    return await channel.declare_queue(exclusive=True)


async def ignore(message):
    """A consumer callback that settles nothing."""


async def bodies(queue):
    """Return all bodies in the queue, in order."""
    found = []
    while message := await queue.get(no_ack=True, fail=False):
        found.append(message.body)
    return found


async def test_a_wrong_password_is_an_authentication_error(broker_host, broker_port):
    with pytest.raises(aiormq.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused"):
        await aio_pika.connect(f"amqp://guest:{uuid.uuid4().hex}@{broker_host}:{broker_port}/")


async def test_an_unknown_vhost_is_refused(broker_host, broker_port):
    # aiormq reports a refused connection.open as an unexpected frame
    with pytest.raises(aiormq.exceptions.AMQPError, match=r"Connection\.Close"):
        await aio_pika.connect(f"amqp://guest:guest@{broker_host}:{broker_port}/nowhere")


async def test_the_server_properties_and_a_clean_close(broker_url):
    connection = await aio_pika.connect(broker_url)
    properties = connection.transport.connection.server_properties
    assert {"product", "version", "platform", "capabilities"} <= set(properties)
    channel = await connection.channel()
    await channel.close()
    assert channel.is_closed
    await connection.close()
    assert connection.is_closed


@pytest.mark.parametrize("heartbeat", [0, 1])
async def test_heartbeats_keep_an_idle_connection(broker_url, heartbeat):
    async with await aio_pika.connect(f"{broker_url}?heartbeat={heartbeat}") as connection:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(connection.closed(), timeout=2.6 if heartbeat else 0.1)
        await connection.channel()


async def test_a_new_secret_is_accepted(connection, channel):
    await connection.update_secret("new secret", reason="for a test")
    await channel.declare_queue(exclusive=True)


async def test_a_declaration_counts_messages_and_consumers(channel, names):
    name = names.queue()
    queue = await channel.declare_queue(name)
    assert (queue.declaration_result.message_count, queue.declaration_result.consumer_count) == (0, 0)
    await channel.default_exchange.publish(Message(b""), name)
    await (await channel.declare_queue(exclusive=True)).consume(ignore)
    result = (await channel.declare_queue(name, passive=True)).declaration_result
    assert (result.message_count, result.consumer_count) == (1, 0)
    assert (await queue.purge()).message_count == 1
    assert (await queue.delete()).message_count == 0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.declare_queue("no.such.queue", passive=True), aiormq.exceptions.ChannelNotFoundEntity),
        (lambda c: c.declare_exchange("no.such.exchange", passive=True), aiormq.exceptions.ChannelNotFoundEntity),
        (lambda c: c.declare_exchange("amq.direct", ExchangeType.FANOUT, durable=True), ChannelPreconditionFailed),
        (lambda c: c.declare_queue("amq.mine"), aiormq.exceptions.ChannelAccessRefused),
    ],
    ids=["queue", "exchange", "type", "reserved"],
)
async def test_a_channel_error_can_be_followed_by_a_reopen(channel, call, error):
    with pytest.raises(error):
        await call(channel)
    assert channel.is_closed
    await channel.reopen()
    await channel.declare_queue(exclusive=True)


async def test_a_simple_publish_and_receive(channel, queue, names):
    exchange = await channel.declare_exchange(names.exchange(), auto_delete=True)
    await queue.bind(exchange, "key")
    await exchange.publish(Message(b"body", content_type="text/plain", headers={"foo": "bar"}), "key")
    message = await queue.get(timeout=60)
    assert (message.exchange, message.routing_key, message.redelivered) == (exchange.name, "key", False)
    assert (message.body, message.headers, message.content_type) == (b"body", {"foo": "bar"}, "text/plain")
    await message.ack()
    await queue.unbind(exchange, "key")
    with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
        await channel.declare_exchange(exchange.name, passive=True)


async def test_every_property_comes_back(channel, queue):
    stamp = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)
    sent = Message(
        b"body",
        headers={
            "double": 2.5,
            "none": None,
            "time": stamp,
            "list": [1, "a", {"b": [True]}],
            "bytes": bytearray(b"\x00\xff"),
        },
        content_type="application/json",
        content_encoding="utf-8",
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration=60,
        message_id="m",
        timestamp=stamp,
        type="t",
        user_id="guest",
        app_id="a",
    )
    await channel.default_exchange.publish(sent, queue.name)
    got = await queue.get(no_ack=True)
    ours = {"delivery_tag", "redelivered", "exchange", "routing_key", "consumer_tag", "cluster_id"}
    assert {name: got.info()[name] for name in sent.info().keys() - ours} == {
        name: value for name, value in sent.info().items() if name not in ours
    }


@pytest.mark.parametrize("size", [0, 1_000_000, 10_000_000])
async def test_a_big_message(channel, queue, size):
    body = bytes(range(250)) * (size // 250)
    await channel.default_exchange.publish(Message(body), queue.name)
    assert (await queue.get(no_ack=True)).body == body


async def test_get_from_an_empty_queue(queue):
    with pytest.raises(QueueEmpty):
        await queue.get(timeout=60)
    assert await queue.get(fail=False) is None


async def test_settling_with_process(channel, queue):
    await channel.default_exchange.publish(Message(b"once"), queue.name)
    with pytest.raises(ZeroDivisionError):
        async with (await queue.get()).process(requeue=True):
            raise ZeroDivisionError
    message = await queue.get()
    assert message.redelivered
    await message.nack(requeue=True)
    async with (await queue.get()).process():
        pass
    await channel.default_exchange.publish(Message(b"rejected"), queue.name)
    await (await queue.get()).reject(requeue=False)
    assert await bodies(queue) == []


async def test_the_iterator_gets_all_in_order_under_a_prefetch(connection, channel, queue):
    consuming = await connection.channel()
    await consuming.set_qos(prefetch_count=3)
    for number in range(20):
        await channel.default_exchange.publish(Message(b"%d" % number), queue.name)
    seen = []
    async with (await consuming.get_queue(queue.name)).iterator(timeout=60) as iterator:
        async for message in iterator:
            async with message.process():
                seen.append(message.body)
            if len(seen) == 20:
                break
    assert seen == [b"%d" % number for number in range(20)]


async def test_deleting_the_queue_cancels_its_consumer(channel, names):
    queue = await channel.declare_queue(names.queue())
    cancelled: asyncio.Queue = asyncio.Queue()
    underlay = await channel.get_underlay_channel()
    underlay.on_consumer_cancel_callbacks.add(cancelled.put)
    tag = await queue.consume(ignore)
    await queue.delete(if_unused=False)
    assert (await asyncio.wait_for(cancelled.get(), 5)).consumer_tag == tag


async def test_a_return_raises_or_reaches_its_callback(connection):
    async with connection.channel(on_return_raises=True) as channel:
        for number in range(50):
            with pytest.raises(PublishError):
                await channel.default_exchange.publish(Message(b"%d" % number), "no.such.queue")
    channel = await connection.channel()
    returned = asyncio.get_running_loop().create_future()
    channel.return_callbacks.add(lambda _, message: returned.set_result(message))
    await channel.default_exchange.publish(Message(b"back", message_id="m"), "no.such.queue", mandatory=True)
    message = await asyncio.wait_for(returned, 5)
    assert (message.body, message.message_id, message.routing_key) == (b"back", "m", "no.such.queue")


async def test_a_full_queue_nacks_the_publish(channel):
    queue = await channel.declare_queue(exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    await channel.default_exchange.publish(Message(b"fits"), queue.name)
    with pytest.raises(DeliveryError):
        await channel.default_exchange.publish(Message(b"too much"), queue.name)


async def test_many_confirms_at_once(channel, queue):
    publishes = [channel.default_exchange.publish(Message(b"%d" % number), queue.name) for number in range(1000)]
    confirmations = await asyncio.gather(*publishes)
    assert all(isinstance(confirmation, aiormq.spec.Basic.Ack) for confirmation in confirmations)
    assert queue.declaration_result.message_count == 0
    assert (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count == 1000


async def test_transactions(connection, queue):
    channel = await connection.channel(publisher_confirms=False)
    async with channel.transaction():
        await channel.default_exchange.publish(Message(b"committed"), queue.name)
        assert await bodies(queue) == []
    with pytest.raises(ZeroDivisionError):
        async with channel.transaction():
            await channel.default_exchange.publish(Message(b"rolled back"), queue.name)
            raise ZeroDivisionError
    assert await bodies(queue) == [b"committed"]


async def test_the_rpc_pattern(connection, names):
    async def double(*, number: int) -> int:
        return 2 * number

    async with connection.channel() as serving, connection.channel() as calling:
        server, client = await RPC.create(serving), await RPC.create(calling)
        name = names.queue("rpc")
        await server.register(name, double, auto_delete=True)
        assert await client.call(name, {"number": 21}) == 42
        with pytest.raises(TypeError):
            await client.call(name, {"wrong": 1})
        await client.close()
        await server.close()


async def test_direct_reply_to(channel, queue):
    came: asyncio.Queue = asyncio.Queue()
    replies = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
    await replies.consume(came.put, no_ack=True)
    await channel.default_exchange.publish(Message(b"request", reply_to="amq.rabbitmq.reply-to"), queue.name)
    request = await queue.get(no_ack=True)
    await channel.default_exchange.publish(Message(b"reply"), request.reply_to)
    assert (await asyncio.wait_for(came.get(), 5)).body == b"reply"


async def test_a_robust_connection_declares_and_consumes(broker_url, names):
    async with await aio_pika.connect_robust(broker_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(names.queue(), auto_delete=True)
        came: asyncio.Queue = asyncio.Queue()
        await queue.consume(came.put, no_ack=True)
        await channel.default_exchange.publish(Message(b"robust"), queue.name)
        assert (await asyncio.wait_for(came.get(), 5)).body == b"robust"
