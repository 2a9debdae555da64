"""A server that stops, is silent or full, or is replaced by its standby: publishers wait, nothing confirmed is lost."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp.commands import Connection

from tests.acceptance.replication.conftest import Sites
from tests.faults.crash.test_restarted import PERSISTENT, confirmed
from tests.support.amqp_client import Channel, Client, Silence
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until
from tests.support.postgresql import CARELESS, Cluster, cluster, init

pytestmark = pytest.mark.sockets
SILENCES = 3  # of a minute each


@pytest.fixture
def server(postgresql_programs: None) -> Iterator[Cluster]:
    """A server that the test stops."""
    with cluster(*CARELESS) as server:
        yield server


def publisher(broker: BrokerProcess) -> Channel:
    """A channel with confirms, whose messages 1 and 2 are confirmed."""
    channel = broker.connect().channel()
    channel.declare("q", durable=True)
    channel.confirm()
    for body in (b"1", b"2"):
        channel.publish("", "q", body, PERSISTENT)
    assert channel.confirms(range(1, 3))[1] == set()
    return channel


def blocked(client: Client, reason: str) -> None:
    """Wait until the connection is blocked."""
    for _ in range(SILENCES):
        with suppress(Silence):
            frame = client.next()
            assert isinstance(frame, Connection.Blocked) and frame.reason == reason
            return
    raise AssertionError("the connection is not blocked")


def unblocked(client: Client) -> None:
    for _ in range(SILENCES):
        with suppress(Silence):
            assert isinstance(client.next(), Connection.Unblocked)
            return
    raise AssertionError("the connection is not unblocked")


def publish_while_lost(broker: BrokerProcess, channel: Channel) -> None:
    """Publish two messages, of which the second waits before the broker, and see that none is confirmed."""
    channel.publish("", "q", b"3", PERSISTENT)
    broker.wait_for_event("store_unavailable")
    channel.publish("", "q", b"4", PERSISTENT)
    blocked(channel.client, "cut off from its store")
    assert not channel.client.inbox(channel.number), "it was confirmed"


def goes_on(channel: Channel) -> None:
    """Wait until the publisher may go on, and all its messages are confirmed and there."""
    unblocked(channel.client)
    assert channel.confirms(range(3, 5))[1] == set()
    channel.close()
    assert channel.client.channel().drain("q") == [b"1", b"2", b"3", b"4"]


def test_a_server_that_is_restarted_is_waited_for(server: Cluster, sites: Sites) -> None:
    broker = sites("a", init(server.url()))
    broker.start()
    channel = publisher(broker)
    server.stop()
    publish_while_lost(broker, channel)
    assert broker.warrenctl("check_alarms").stderr == "Store alarm on node warren@a\n"
    server.start()
    goes_on(channel)
    broker.stop()


def test_a_server_that_does_not_answer_is_waited_for(server: Cluster, sites: Sites) -> None:
    broker = sites("a", init(server.url()))
    broker.start()
    channel = publisher(broker)
    server.signal(signal.SIGSTOP)
    try:
        publish_while_lost(broker, channel)
    finally:
        server.signal(signal.SIGCONT)
    goes_on(channel)
    broker.stop()


def test_links_are_suspended_until_the_server_answers_again(server: Cluster, sites: Sites) -> None:
    broker = sites("a", init(server.url()))
    broker.start()
    server.stop()
    broker.wait_for_event("federation_suspended")
    server.start()
    broker.wait_for_event("federation_resumed")
    assert broker.starts == 1
    broker.stop()


def test_a_server_that_stays_away_is_given_up(server: Cluster, sites: Sites) -> None:
    broker = sites("a", init(server.url()), "storage.retry_s = 1")
    broker.start()
    channel = publisher(broker)
    server.stop()
    channel.publish("", "q", b"3", PERSISTENT)
    assert broker.wait() == 74
    (line,) = broker.events("storage_failed")
    assert "PostgreSQL could not be reached for 1 s" in line["reason"]
    server.start()
    broker.start()
    assert broker.connect().channel().drain("q")[:2] == [b"1", b"2"]


def test_the_standby_server_that_is_promoted_is_followed(servers: tuple[Cluster, Cluster], sites: Sites) -> None:
    primary, standby = servers
    broker = sites("a", init(primary.url(standby)))
    broker.start()
    (ready,) = broker.events("ready")
    assert ready["guarantee"] == "the disks of the server and of 1 standby"
    channel = publisher(broker)
    primary.stop()
    publish_while_lost(broker, channel)
    standby.promote()
    goes_on(channel)
    assert broker.starts == 1
    confirmed(broker.connect(), "q", [b"5"])
    broker.stop()


def test_a_queue_is_drained_by_basic_get_after_a_failover(servers: tuple[Cluster, Cluster], sites: Sites) -> None:
    primary, standby = servers
    broker = sites("a", init(primary.url(standby)))
    broker.start()
    bodies = [b"%d" % number + bytes(2000) for number in range(1000)]
    client = broker.connect()
    client.channel().declare("q", durable=True)
    confirmed(client, "q", bodies)
    broker.stop()
    broker.start()  # now the messages are in the database alone
    channel = broker.connect().channel()
    primary.stop()
    standby.promote()
    assert channel.drain("q") == bodies, "get-empty came although messages were ready"
    broker.stop()


def test_without_its_synchronous_standby_the_server_confirms_nothing(
    servers: tuple[Cluster, Cluster], sites: Sites
) -> None:
    primary, standby = servers
    broker = sites("a", init(primary.url()))
    broker.start()
    channel = publisher(broker)
    standby.stop()
    publish_while_lost(broker, channel)
    standby.start()
    goes_on(channel)
    broker.stop()


@pytest.fixture
def small(server: Cluster) -> Iterator[Path]:
    """A folder on a disk of a few megabytes, for the tables of a database."""
    folder = server.folder / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here, to be filled")
    os.chmod(folder, 0o777)
    try:
        yield folder
    finally:
        server.stop()
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_of_the_server_is_waited_for(server: Cluster, small: Path, sites: Sites) -> None:
    (tables := small / "tables").mkdir()
    os.chown(tables, small.parent.stat().st_uid, small.parent.stat().st_gid)
    os.chmod(tables, 0o700)
    server.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
    server.execute("CREATE DATABASE store TABLESPACE small TEMPLATE template0")
    broker = sites("a", init(server.url(database="store")))
    broker.start()
    channel = publisher(broker)
    filler = small / "filler"
    with filler.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    for _ in range(20):
        channel.publish("", "q", bytes(100_000), PERSISTENT)
    until(lambda: broker.warrenctl("check_alarms").stderr)
    channel.publish("", "q", b"last", PERSISTENT)
    blocked(channel.client, "low on disk")
    consumer = broker.connect().channel()
    assert consumer.get("q") is not None
    filler.unlink()
    unblocked(channel.client)
    assert channel.confirms(range(3, 24))[1] == set()
    assert consumer.count("q") == 22
