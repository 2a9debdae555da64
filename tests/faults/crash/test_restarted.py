"""Objects and messages after a restart: what is kept, in which order, byte for byte, and what is not."""

import random
import resource
from collections.abc import Callable

import pytest
from pamqp.commands import Exchange, Queue

from tests.support import codec
from tests.support.amqp_client import Client, Closed
from tests.support.broker_process import BrokerProcess

from .conftest import FILES_ONLY, ON_POSTGRESQL

in_folder = pytest.mark.skipif(ON_POSTGRESQL, reason=FILES_ONLY)
PERSISTENT = {"delivery_mode": 2}
TRANSIENT = {"delivery_mode": 1}

pytestmark = pytest.mark.sockets


@pytest.fixture(params=["killed", "stopped"])
def restart(request: pytest.FixtureRequest, daemon: BrokerProcess) -> Callable[[], Client]:
    """Restart the broker after a stop or a kill, and return a new connection."""

    def again() -> Client:
        if request.param == "killed":
            daemon.kill()
        else:
            daemon.stop()
        daemon.start()
        return daemon.connect()

    return again


def confirmed(client: Client, queue: str, bodies: list[bytes], properties: object = None) -> None:
    """Publish to a queue and wait for the confirms."""
    channel = client.channel()
    channel.confirm()
    for body in bodies:
        channel.publish("", queue, body, properties or PERSISTENT)
    assert channel.confirms(range(1, len(bodies) + 1))[1] == set()
    channel.close()


def missing(client: Client, queue: str = "", exchange: str = "") -> None:
    channel = client.channel()
    if queue:
        channel.refused(404, Queue.Declare, queue=queue, passive=True)
    else:
        channel.refused(404, Exchange.Declare, exchange=exchange, passive=True)


@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_messages_of_many_frames_in_ten_queues_are_the_same_to_the_byte(
    daemon: BrokerProcess, restart: Callable[[], Client], frame_max: int
) -> None:
    daemon.start()
    channel = daemon.connect(frame_max=frame_max).channel()
    channel.exchange("all", "fanout", durable=True)
    queues = [f"ten-{number}" for number in range(10)]
    for queue in queues:
        channel.declare(queue, durable=True)
        channel.bind(queue, "all")
    dice = random.Random(frame_max)
    sizes = (0, 1, frame_max - 8, frame_max - 7, 3 * frame_max, 1_500_000)
    sent = [(dice.randbytes(size), {"headers": {"n": size, "l": [1, "x"]}, "delivery_mode": 2}) for size in sizes]
    channel.confirm()
    for body, properties in sent:
        channel.publish("all", "the key", body, properties)
    channel.confirms(range(1, len(sent) + 1))
    client = restart()
    channel = client.channel()
    for queue in queues:
        for body, properties in sent:
            message = channel.get(queue)
            assert message is not None and message.body == body
            assert message.property_bytes == codec.property_bytes(properties)
            assert (message.method.exchange, message.method.routing_key) == ("all", "the key")
        assert channel.get(queue) is None


def test_durable_objects_stay_and_all_others_go(client: Client, restart: Callable[[], Client]) -> None:
    channel = client.channel()
    for durable in (True, False):
        word = "durable" if durable else "transient"
        channel.exchange(f"{word}-x", "topic", durable=durable, arguments={"alternate-exchange": "durable-other"})
        channel.declare(f"{word}-q", durable=durable)
    channel.exchange("durable-other", "fanout", durable=True, internal=True)
    channel.declare("auto-delete-q", durable=True, auto_delete=True)
    channel.declare("exclusive-q", durable=True, exclusive=True)
    channel.declare("rest-q", durable=True)
    channel.bind("durable-q", "durable-x", "a.#")
    channel.bind("transient-q", "durable-x", "a.#")
    channel.bind("exclusive-q", "durable-x", "a.#")
    channel.bind("rest-q", "durable-other")
    channel.call(Exchange.Bind, source="durable-x", destination="durable-other", routing_key="e2e")
    channel.bind("durable-q", "durable-x", "gone")
    channel.call(Queue.Unbind, queue="durable-q", exchange="durable-x", routing_key="gone")

    client = restart()
    for queue in ("transient-q", "exclusive-q"):
        missing(client, queue=queue)
    missing(client, exchange="transient-x")
    channel = client.channel()
    channel.declare("auto-delete-q", durable=True, auto_delete=True)
    channel.exchange("durable-x", "topic", durable=True, arguments={"alternate-exchange": "durable-other"})
    channel.exchange("durable-other", "fanout", durable=True, internal=True)
    for key in ("a.b", "e2e", "gone", "no such"):
        channel.publish("durable-x", key, key.encode())
    assert channel.drain("durable-q") == [b"a.b"]
    assert channel.drain("rest-q") == [b"e2e", b"gone", b"no such"]


def test_what_was_declared_is_there_and_what_was_deleted_is_not_however_soon_the_end_comes(
    daemon: BrokerProcess,
) -> None:
    daemon.start()
    for number in range(4):
        client = daemon.connect()
        channel = client.channel()
        if number:
            channel.call(Exchange.Delete, exchange=f"x{number - 1}")
            channel.call(Queue.Delete, queue=f"gone{number - 1}")
        channel.declare(f"gone{number}", durable=True)
        confirmed(client, f"gone{number}", [b"of a queue that is deleted"])
        channel.exchange(f"x{number}", durable=True)
        channel.declare(f"q{number}", durable=True)
        channel.bind(f"q{number}", f"x{number}", "key")
        daemon.kill()
        daemon.start()
        client = daemon.connect()
        if number:
            missing(client, exchange=f"x{number - 1}")
            missing(client, queue=f"gone{number - 1}")
        channel = client.channel()
        channel.publish(f"x{number}", "key", b"through it")
        assert channel.drain(f"q{number}") == [b"through it"]
    assert channel.declare("gone0", durable=True).message_count == 0
    assert daemon.doctor().returncode == 73
    daemon.kill()
    assert daemon.doctor().returncode == 0


def test_messages_that_are_not_persistent_go_and_the_others_keep_their_order(
    client: Client, restart: Callable[[], Client]
) -> None:
    client.channel().declare("mixed", durable=True)
    confirmed(client, "mixed", [b"1", b"2"])
    confirmed(client, "mixed", [b"not kept"], TRANSIENT)
    confirmed(client, "mixed", [b"3", b"4"])
    channel = client.channel()
    unacked = [channel.get("mixed", no_ack=False) for _ in range(2)]  # come back to where they stood
    assert None not in unacked
    channel = restart().channel()
    came = channel.get_all("mixed")
    assert [content.body for content in came] == [b"1", b"2", b"3", b"4"]
    assert [content.redelivered for content in came][:2] == [True, True]


def test_a_clean_stop_brings_back_nothing_that_was_acknowledged(client: Client, daemon: BrokerProcess) -> None:
    bodies = [b"%d" % number for number in range(2000)]
    client.channel().declare("orders", durable=True)
    confirmed(client, "orders", bodies)
    channel = client.channel()
    channel.consume("orders")
    came = channel.deliveries(len(bodies))
    for content in came[::2]:
        channel.ack(content.tag)
    channel.sync()
    daemon.stop()
    for _ in range(2):
        daemon.start()
        channel = daemon.connect().channel()
        assert channel.count("orders") == len(bodies) // 2
        daemon.stop()
    daemon.start()
    channel = daemon.connect().channel()
    assert channel.drain("orders") == bodies[1::2]
    daemon.stop()
    daemon.start()
    assert daemon.connect().channel().count("orders") == 0


def test_committed_acknowledgements_and_purges_hold_through_a_kill(client: Client, daemon: BrokerProcess) -> None:
    for queue in ("acked", "purged"):
        client.channel().declare(queue, durable=True)
        confirmed(client, queue, [b"%d" % number for number in range(100)])
    channel = client.channel()
    channel.transact()
    channel.consume("acked")
    channel.ack(channel.deliveries(100)[59].tag, multiple=True)
    channel.commit()
    assert client.channel().call(Queue.Purge, queue="purged").message_count == 100
    confirmed(client, "purged", [b"after"])
    daemon.kill()
    daemon.start()
    channel = daemon.connect().channel()
    assert channel.drain("acked") == [b"%d" % number for number in range(60, 100)]
    assert channel.drain("purged") == [b"after"]


LARGE = 1_000_000  # bytes: the limit of a segment with such a message is above the size of the metadata's files


@in_folder
def test_a_write_that_fails_ends_the_broker_and_is_not_confirmed(client: Client, daemon: BrokerProcess) -> None:
    client.channel().declare("failing", durable=True)
    confirmed(client, "failing", [bytes(LARGE)])
    (segment,) = (daemon.data / "log").glob("*.log")
    limit = segment.stat().st_size + 500  # the write of more than that fails
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    channel = client.channel()
    channel.confirm()
    channel.publish("", "failing", bytes(1000), PERSISTENT)
    with pytest.raises(Closed):
        channel.confirms([1])
    assert daemon.process.wait(5) == 74
    (said,) = daemon.events("storage_failed")
    assert "too large" in said["reason"]
    daemon.start()
    assert daemon.connect().channel().drain("failing") == [bytes(LARGE)]
