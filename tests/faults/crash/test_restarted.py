"""Objects and messages after a restart: what is kept, in which order, byte for byte, and what is not."""

import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp.commands import Exchange, Queue

from tests.support import codec
from tests.support.amqp_client import Client, Closed
from tests.support.broker_process import BrokerProcess, run

from .conftest import FILES_ONLY, ON_POSTGRESQL, check_sound

in_folder = pytest.mark.skipif(ON_POSTGRESQL, reason=FILES_ONLY)
PERSISTENT = {"delivery_mode": 2}

pytestmark = pytest.mark.sockets


@pytest.fixture(params=["killed", "stopped", pytest.param("restored", marks=in_folder)])
def restart(request: pytest.FixtureRequest, daemon: BrokerProcess, tmp_path: Path) -> Callable[[], Client]:
    """Restart the broker after a stop or a kill, or from a backup of it, and return a new connection."""

    def again() -> Client:
        if request.param == "killed":
            daemon.kill()
        elif request.param == "restored":
            file = tmp_path / "backup.tar"
            assert daemon.warrenctl("backup", str(file)).returncode == 0
            daemon.kill()
            shutil.rmtree(daemon.data)
            assert run("restore", str(file), "--data", str(daemon.data)).returncode == 0
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


def test_a_broker_without_virtual_hosts_starts_again(client: Client, daemon: BrokerProcess) -> None:
    channel = client.channel()
    channel.declare("q", durable=True)
    confirmed(client, "q", [b"gone with its queue"])
    daemon.warrenctl("delete_vhost", "/").check_returncode()
    check_sound(daemon)
    daemon.start()
    daemon.warrenctl("add_vhost", "/").check_returncode()
    assert daemon.warrenctl("list_queues", "--silent").stdout == ""


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
