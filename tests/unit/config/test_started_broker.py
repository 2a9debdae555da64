"""The effects of the configuration on a started broker."""

import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import trustme

from tests.support.broker_process import STOP_WITHIN_S, BrokerProcess

pytestmark = pytest.mark.sockets


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[BrokerProcess]:
    started = BrokerProcess(tmp_path)
    yield started
    started.close()


def test_the_default_user_and_virtual_host_are_made_at_the_first_start_alone(
    daemon: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USER", "PASS", "VHOST"):
        monkeypatch.setenv(f"RABBITMQ_DEFAULT_{name}", f"first-{name.lower()}")
    daemon.start()
    daemon.connect(user="first-user", password="first-pass", vhost="first-vhost").close()
    with pytest.raises(AssertionError, match="ACCESS_REFUSED"):
        daemon.connect()
    daemon.stop()
    monkeypatch.setenv("RABBITMQ_DEFAULT_USER", "second-user")
    daemon.start()
    daemon.connect(user="first-user", password="first-pass", vhost="first-vhost").close()
    with pytest.raises(AssertionError, match="ACCESS_REFUSED"):
        daemon.connect(user="second-user", password="first-pass", vhost="first-vhost")


def test_the_limits_of_the_configuration_are_those_that_are_proposed(daemon: BrokerProcess) -> None:
    daemon.configure("channel_max = 12", "frame_max = 16384", "heartbeat = 34")
    daemon.start()
    host, port = daemon.address
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        agreed = connection._impl.params
        assert (agreed.channel_max, agreed.frame_max, agreed.heartbeat) == (12, 16384, 34)


def test_who_is_told_to_end_tells_its_clients_and_leaves_with_0(daemon: BrokerProcess) -> None:
    daemon.start()
    host, port = daemon.address
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    daemon.process.send_signal(signal.SIGTERM)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(STOP_WITHIN_S)
    assert closed.value.reply_code == 320
    assert daemon.wait() == 0


def test_without_plain_listeners_there_is_tls_and_nothing_else(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = tmp_path / "leaf.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
    broker = BrokerProcess(tmp_path, memory=True, amqp=None)
    broker.configure(
        *("listeners.tcp = none", "listeners.ssl.default = 127.0.0.1:0"),
        *(f"ssl_options.certfile = {leaf}", f"ssl_options.keyfile = {leaf}", "management.tcp.port = 0"),
    )
    with broker:
        assert broker.addresses["amqp"] == []
        (address,) = broker.addresses["amqps"]
        context = ssl.create_default_context()
        authority.configure_trust(context)
        options = pika.SSLOptions(context, "localhost")
        port = int(address.rpartition(":")[2])
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, ssl_options=options)):
            pass


def test_an_alarm_is_logged_with_the_disk_its_free_space_and_the_limit(daemon: BrokerProcess) -> None:
    daemon.configure("disk_free_limit.absolute = 8000TB", "vm_memory_high_watermark.absolute = 1MB")
    daemon.start()
    disk, memory = (
        next(line for line in daemon.events("alarm_set") if line["resource"] == resource)
        for resource in ("disk", "memory")
    )
    place = f" are free at {daemon.data.absolute()}, the limit is 8000000.0 GB.\n"
    assert disk["disk"] == str(daemon.data.absolute()) and place in disk["msg"] and "*" not in disk["msg"]
    assert 0 < disk["free_bytes"] < disk["limit_bytes"] == 8000 * 10**12
    assert memory["used_bytes"] > memory["limit_bytes"] == 10**6


def test_a_killed_broker_in_memory_leaves_nothing_once_the_next_one_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    broker, other = (BrokerProcess(tmp_path / name, memory=True) for name in ("broker", "other"))
    with other:
        with broker:
            killed = Path(broker.addresses["control"][0]).parent
            broker.kill()
        with broker:
            sockets = {path.parent for path in tmp_path.glob("warren-*/ctl.sock")}
            assert sockets == {Path(one.addresses["control"][0]).parent for one in (broker, other)}
            assert not killed.exists()
