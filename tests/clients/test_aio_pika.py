"""aio-pika (and aiormq below it), plain and robust connections. Mirrors aio-pika's own tests (test_amqp, test_rpc)."""

import asyncio
import uuid

import aio_pika
import aiormq
import pytest
from aio_pika import ExchangeType, Message
from aio_pika.exceptions import ChannelPreconditionFailed, PublishError
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


async def test_many_confirms_at_once(channel, queue):
    publishes = [channel.default_exchange.publish(Message(b"%d" % number), queue.name) for number in range(1000)]
    confirmations = await asyncio.gather(*publishes)
    assert all(isinstance(confirmation, aiormq.spec.Basic.Ack) for confirmation in confirmations)
    assert queue.declaration_result.message_count == 0
    assert (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count == 1000


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


async def test_a_robust_connection_declares_and_consumes(broker_url, names):
    async with await aio_pika.connect_robust(broker_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(names.queue(), auto_delete=True)
        came: asyncio.Queue = asyncio.Queue()
        await queue.consume(came.put, no_ack=True)
        await channel.default_exchange.publish(Message(b"robust"), queue.name)
        assert (await asyncio.wait_for(came.get(), 5)).body == b"robust"
