"""Kills and restarts of a broker for tests, as its clients notice them."""

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aio_pika
import pika
import pytest

from tests.support.http import HTTPClient
from tests.support.polling import until
from warren.testing import Broker, BrokerError, VHost

from .clients import channel_of

pytestmark = pytest.mark.sockets
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def exists(vhost: VHost, queue: str) -> bool:
    channel = channel_of(vhost)
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare(queue, passive=True)
    return channel.is_open


async def other_tasks() -> None:
    """Wait for all that a client still does after the loss of its connection, before its loop ends."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def declare_all(vhost: VHost) -> None:
    """Make one object of each durability, with messages of each."""
    channel = channel_of(vhost)
    channel.exchange_declare("durable-exchange", "fanout", durable=True)
    channel.exchange_declare("transient-exchange", "fanout")
    for queue, durable in (("durable", True), ("transient", False)):
        channel.queue_declare(queue, durable=durable)
        channel.basic_publish("", queue, b"persistent", PERSISTENT)
        channel.basic_publish("", queue, b"transient")
    channel.queue_bind("durable", "durable-exchange")
    channel.queue_declare("exclusive", exclusive=True, durable=True)
    channel.queue_declare("unacknowledged", durable=True)
    channel.basic_publish("", "unacknowledged", b"delivered", PERSISTENT)
    assert channel.basic_get("unacknowledged")[2] == b"delivered"


def kill(broker: Broker) -> None:
    broker.kill()
    broker.start()


def kill_by_the_system(broker: Broker) -> None:
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: not broker.running)
    broker.reset()


def end_by_itself(broker: Broker) -> None:
    os.kill(broker.pid, signal.SIGTERM)
    until(lambda: not broker.running)
    broker.start()


def kill_twice(broker: Broker) -> None:
    broker.kill()
    broker.kill()
    broker.start()
    broker.kill()
    broker.restart()


MORE_ENDS = [pytest.param(end, marks=pytest.mark.rest("starts brokers")) for end in (kill, kill_twice, end_by_itself)]


@pytest.mark.parametrize("end", [kill_by_the_system, Broker.restart, *MORE_ENDS])
def test_what_is_durable_survives_and_nothing_else(
    broker: Broker, vhost: VHost, end: Callable[[Broker], object]
) -> None:
    declare_all(vhost)
    addresses = broker.url, broker.http_url
    end(broker)
    assert (broker.url, broker.http_url) == addresses
    channel = channel_of(vhost)
    assert [channel.basic_get("durable", auto_ack=True)[2] for _ in range(2)] == [b"persistent", None]
    delivered = channel.basic_get("unacknowledged", auto_ack=True)
    assert delivered[2] == b"delivered" and delivered[0].redelivered
    channel.exchange_declare("durable-exchange", passive=True)
    channel.basic_publish("durable-exchange", "", b"bound")
    assert channel.basic_get("durable", auto_ack=True)[2] == b"bound"
    assert not exists(vhost, "transient") and not exists(vhost, "exclusive")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange 'transient-exchange'"):
        channel.exchange_declare("transient-exchange", passive=True)


def test_a_restart_without_keep_leaves_the_virtual_hosts_alone(broker: Broker, vhost: VHost) -> None:
    """No object in any virtual host is left, no policy, and no user but the default one."""
    declare_all(vhost)
    channel_of(VHost(broker, "/")).queue_declare("in the default one", durable=True)
    api = HTTPClient(broker.http_url.removeprefix("http://"), "/api")
    api.put("/users/other", {"password": "x", "tags": ""})
    api.put("/vhosts/other", {})
    api.put(f"/policies/{vhost}/p", {"pattern": "", "definition": {"max-length": 1}})
    addresses = broker.url, broker.http_url
    broker.restart(keep=False)
    assert (broker.url, broker.http_url) == addresses
    assert {row["name"] for row in api.get("/vhosts").json} == {"/", vhost.name}
    assert [row["name"] for row in api.get("/users").json] == ["guest"]
    assert api.get("/queues").json == api.get("/policies").json == []
    assert not [row for row in api.get("/exchanges").json if row["name"] and not row["name"].startswith("amq.")]
    channel = channel_of(vhost)
    channel.queue_declare("durable")
    assert channel.basic_get("durable")[2] is None


@pytest.mark.parametrize(
    "moment", [20, *(pytest.param(n, marks=pytest.mark.rest("starts brokers")) for n in (0, 7, 99))]
)
def test_nothing_confirmed_is_lost_when_it_is_killed_at_any_moment(broker: Broker, vhost: VHost, moment: int) -> None:
    """A publisher in a loop of its own goes on while the broker is killed after that many confirms."""
    confirmed: list[int] = []

    async def publish() -> None:
        connection = await aio_pika.connect(vhost.url)
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)

        async def publish_one(number: int) -> None:
            message = aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "q")
            confirmed.append(number)
            if len(confirmed) == moment + 1:
                os.kill(broker.pid, signal.SIGKILL)

        await asyncio.gather(*map(publish_one, range(100)), return_exceptions=True)
        with suppress(aio_pika.exceptions.AMQPError, OSError):
            await connection.close()
        await other_tasks()

    asyncio.run(publish())
    assert moment < len(confirmed) <= 100
    broker.restart()
    channel = channel_of(vhost)
    found = set(iter(lambda: channel.basic_get("q", auto_ack=True)[2], None))
    assert {b"%d" % number for number in confirmed} <= found


def test_clients_that_answer_are_told_of_a_restart_and_connect_again(broker: Broker, vhost: VHost) -> None:
    async def follow() -> None:
        connection = await aio_pika.connect_robust(vhost.url, reconnect_interval=0.05)
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True)
        again = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: again.set())
        await asyncio.to_thread(broker.restart)
        await asyncio.wait_for(again.wait(), 30)
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
        message = await queue.get(timeout=30)
        assert message is not None and message.body == b"x"
        await connection.close()
        await other_tasks()

    asyncio.run(follow())


def test_while_it_is_down_nobody_gets_its_ports_and_a_with_statement_starts_it_again(broker: Broker) -> None:
    pid = broker.pid
    with broker.kill():
        assert not broker.running
        for port in (broker.port, int(broker.http_url.rpartition(":")[2])):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((broker.host, port))
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((broker.host, port))
    assert broker.running and broker.pid != pid
    with broker.kill():
        broker.start()  # by the test: the end of the statement starts no other
        pid = broker.pid
    assert broker.pid == pid


@pytest.mark.rest("starts brokers again and again")
def test_a_virtual_host_that_is_deleted_while_it_is_down_is_not_there_afterwards(broker: Broker) -> None:
    with broker.vhost() as vhost:
        channel_of(vhost).queue_declare("q", durable=True)
        broker.kill()
    broker.start()
    names = {row["name"] for row in HTTPClient(broker.http_url.removeprefix("http://"), "/api").get("/vhosts").json}
    assert vhost.name not in names
    with broker.vhost(vhost.name) as again:
        assert not exists(again, "q")


@pytest.mark.rest("starts brokers again and again")
def test_faults_end_with_the_process(broker: Broker, vhost: VHost) -> None:
    with broker.refuse(), broker.block(), broker.delay(60_000), broker.partition():
        broker.kill()
    broker.start()
    channel_of(vhost).queue_declare("q")


@pytest.mark.rest("starts brokers again and again")
def test_a_broker_that_was_closed_keeps_nothing_and_is_started_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broker = Broker().start()
    [folder] = tmp_path.iterdir()
    channel_of(broker.vhost("v")).queue_declare("q", durable=True)
    address = broker.url
    broker.close()
    assert list(tmp_path.iterdir()) == []
    broker.reset()
    assert not broker.running
    with broker:
        assert broker.url == address and [folder] != list(tmp_path.iterdir())
        assert not exists(broker.vhost("v"), "q")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rest("starts brokers again and again")
def test_a_broker_whose_data_are_damaged_starts_as_a_new_one_for_the_next_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Broker() as broker:
        broker.kill()
        for database in tmp_path.glob("*/data/meta.sqlite*"):
            database.write_bytes(b"damaged" * 1000)
        with pytest.raises(BrokerError, match="status 69"):
            broker.start()
        broker.kill()
        broker.ensure_running()
        channel_of(broker.vhost()).queue_declare("q")


def test_async_with_starts_and_closes_it() -> None:
    async def use() -> Broker:
        async with Broker() as broker:
            connection = await aio_pika.connect(broker.url)
            await connection.close()
            return broker

    assert not asyncio.run(use()).running
