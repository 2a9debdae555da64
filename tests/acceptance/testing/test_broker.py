"""The controls of a broker for tests, as its clients notice them."""

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.http import HTTPClient
from tests.support.polling import WITHIN_S, until
from warren.testing import Broker, BrokerError, VHost

from .clients import channel_of, connect

pytestmark = pytest.mark.sockets
DAY_MS = 86_400_000


@pytest.fixture
def channel(vhost: VHost) -> BlockingChannel:
    return channel_of(vhost)


def get(channel: BlockingChannel, queue: str) -> Any:
    return channel.basic_get(queue, auto_ack=True)[2]


def test_the_http_api_is_served(broker: Broker) -> None:
    overview = HTTPClient(broker.http_url.removeprefix("http://"), "/api").get("/overview")
    assert overview.status == 200 and overview.json["node"] == "warren@testing"


def test_a_virtual_host_may_have_any_name_and_is_deleted_with_its_connections(broker: Broker) -> None:
    with broker.vhost("a/b c%") as vhost:
        connection = connect(vhost)
        assert str(vhost) == "a/b c%" and vhost.url.endswith("/a%2Fb%20c%25")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="is deleted"):
        connection.process_data_events(10)


def test_connections_are_dropped_by_user_name_and_given_name(broker: Broker, vhost: VHost) -> None:
    first, second, third = (connect(vhost, name) for name in ("shop-1", "shop-2", "stock"))
    assert broker.drop_connections("shop-*") == 2
    for dropped in (first, second):
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            dropped.process_data_events(10)
    third.process_data_events(0)
    assert broker.drop_connections("nobody") == 0
    assert broker.drop_connections("127.0.0.1:* -> *") == 1


def test_replies_are_delayed_in_order_until_the_fault_is_undone(broker: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    with broker.delay(100):
        begun_s = time.monotonic()
        for number in range(3):
            channel.basic_publish("", "q", b"%d" % number)
        # Each publish waits for its confirm. A delay that is too short is a fault, a long one may be the machine's.
        assert time.monotonic() - begun_s >= 0.3
    assert [get(channel, "q") for _ in range(3)] == [b"0", b"1", b"2"]


def test_what_waits_is_sent_at_once_when_the_delay_ends(broker: Broker, vhost: VHost, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    broker.delay(DAY_MS)
    declared = threading.Thread(target=channel.queue_declare, args=["other"], daemon=True)
    declared.start()
    http = HTTPClient(broker.http_url.removeprefix("http://"), "/api")
    until(lambda: http.get(f"/queues/{vhost}/other").status == 200)
    assert declared.is_alive()
    broker.reset()
    declared.join(30)
    assert not declared.is_alive()


def test_a_connection_that_is_closed_gets_what_was_delayed(broker: Broker, vhost: VHost) -> None:
    connection = connect(vhost)
    broker.delay(50)
    connection.close()  # returns when close-ok arrives
    assert connection.is_closed


def test_a_day_passes_in_a_moment(broker: Broker, channel: BlockingChannel) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("dead")
    channel.queue_declare("ttl", arguments={"x-message-ttl": DAY_MS, **dead})
    channel.queue_declare("ttl-2", arguments={"x-message-ttl": DAY_MS // 2, **dead})
    channel.queue_declare("unused", arguments={"x-expires": DAY_MS})
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    channel.queue_bind("dead", "later")
    channel.basic_publish("", "ttl", b"last")
    channel.basic_publish("", "ttl-2", b"second")
    channel.basic_publish("later", "", b"first", pika.BasicProperties(headers={"x-delay": DAY_MS // 3}))
    broker.advance(DAY_MS - 60_000)
    assert [get(channel, "dead") for _ in range(3)] == [b"first", b"second", None]
    channel.queue_declare("unused", passive=True)
    broker.advance(60_000)
    assert get(channel, "dead") == b"last"
    broker.advance(DAY_MS)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'unused'"):
        channel.queue_declare("unused", passive=True)


def test_a_chain_of_dead_letters_runs_within_one_advance(broker: Broker, channel: BlockingChannel) -> None:
    for number in range(5):
        arguments = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{number + 1}"}
        channel.queue_declare(f"q{number}", arguments=arguments)
    channel.queue_declare("q5")
    for _ in range(1000):
        channel.basic_publish("", "q0", b"x")
    broker.advance(3_600_000)
    assert channel.queue_declare("q5", passive=True).method.message_count == 1000


def test_a_delivery_that_is_not_acknowledged_in_time_closes_the_channel(broker: Broker, vhost: VHost) -> None:
    connection = connect(vhost)
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    channel.basic_consume("q", lambda *_: None)
    connection.process_data_events(1)
    broker.advance(DAY_MS)
    until(lambda: connection.process_data_events(0.1) or channel.is_closed)
    assert "delivery acknowledgement" in str(channel._closing_reason)


def test_timestamps_are_those_of_the_machine_again_after_a_reset(broker: Broker, channel: BlockingChannel) -> None:
    def died_s() -> float:
        channel.basic_publish("", "q", b"x")
        broker.expire_now("q", vhost)
        properties = channel.basic_get("dead", auto_ack=True)[1]
        died: float = properties.headers["x-death"][0]["time"].timestamp()
        return died - time.time()

    vhost = pika_vhost(channel)
    channel.queue_declare("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", arguments=dead)
    broker.advance(DAY_MS)
    assert died_s() > 80_000
    broker.reset()
    assert died_s() < 80_000


def pika_vhost(channel: BlockingChannel) -> str:
    """The virtual host of a channel."""
    vhost: str = channel.connection._impl.params.virtual_host
    return vhost


def test_expired_messages_are_dead_lettered_as_expired(broker: Broker, vhost: VHost, channel: BlockingChannel) -> None:
    channel.queue_declare("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-priority": 5}
    channel.queue_declare("q", arguments=dead)
    for number in range(300):
        channel.basic_publish("", "q", b"x", pika.BasicProperties(priority=number % 5))
    assert broker.expire_now("q", vhost) == 300
    assert channel.queue_declare("dead", passive=True).method.message_count == 300
    assert channel.basic_get("dead")[1].headers["x-first-death-reason"] == "expired"


def test_refused_connections_are_accepted_again_at_the_same_port(broker: Broker, vhost: VHost) -> None:
    stays = connect(vhost)
    with broker.refuse():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((broker.host, broker.port))
        stays.process_data_events(0)
    for _ in range(2):
        broker.refuse()
        broker.accept()
    connect(vhost).close()


@pytest.mark.parametrize("alarm", ["block", "fill_disk"])
def test_an_alarm_lasts_until_it_is_undone(broker: Broker, vhost: VHost, alarm: str) -> None:
    connection, seen = connect(vhost), []
    connection.add_on_connection_blocked_callback(lambda _, frame: seen.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: seen.append(""))
    getattr(broker, alarm)()
    connection.channel().basic_publish("", "q", b"x")
    until(lambda: connection.process_data_events(0.1) or seen)
    assert seen == ["low on " + ("memory" if alarm == "block" else "disk")]
    broker.reset()
    until(lambda: connection.process_data_events(0.1) or len(seen) == 2)
    assert seen[1] == ""


def test_the_alarm_of_the_disk_is_in_effect_at_once_while_messages_are_stored(broker: Broker, vhost: VHost) -> None:
    channel = connect(vhost).channel()
    channel.queue_declare("q", durable=True)
    for _ in range(20):
        for _ in range(5):
            channel.basic_publish("", "q", bytes(100_000), pika.BasicProperties(delivery_mode=2))
        start = broker.log_bytes
        with broker.fill_disk():
            assert "disk" in broker.log(start)
        assert "cleared" in broker.log(start)


def test_what_is_asked_of_an_unknown_object_is_refused(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="there is no queue 'q' in virtual host 'none'"):
        broker.expire_now("q", "none")
    with pytest.raises(BrokerError, match="not a control"):
        broker._do("delay", ms="long")
    broker.vhost().delete()  # and the broker serves on


def test_a_call_that_was_interrupted_disturbs_no_later_one(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(within_s: float) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(broker, "_read_line", interrupt)
        with pytest.raises(KeyboardInterrupt):
            broker.drop_connections()
    with pytest.raises(BrokerError, match="no queue"):
        broker.expire_now("q")
    assert broker.drop_connections() == 0


def test_threads_share_a_broker(broker: Broker) -> None:
    names: list[str] = []

    def use() -> None:
        for _ in range(20):
            with broker.vhost() as vhost:
                names.append(vhost.name)

    threads = [threading.Thread(target=use, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    assert len(set(names)) == 80


def test_a_forked_process_may_not_use_it_and_cannot_close_it(broker: Broker) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            broker.close()
            broker.vhost()
        except BrokerError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    broker.vhost().delete()


def test_keys_of_the_configuration_are_set() -> None:
    with Broker(
        {
            "default_user": "m/e",
            "loopback_users": "none",
            "warren.node": "other@here",
            "tcp_listen_options.keepalive": True,
        }
    ) as one:
        assert one.user == "m/e" and one.url.startswith("amqp://m%2Fe:guest@")
        assert HTTPClient(one.http_url.removeprefix("http://"), "/api").get("/overview").status == 401


def test_a_wrong_key_is_reported() -> None:
    with pytest.raises(BrokerError, match=r"status 78:\n.*unknown key hartbeat"):
        Broker({"hartbeat": 1}).start()


def test_variables_of_rabbitmq_do_not_concern_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RABBITMQ_CONFIG_FILE", str(tmp_path / "missing.conf"))
    monkeypatch.setenv("RABBITMQ_DEFAULT_USER", "another")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    with Broker() as broker:
        assert broker.user == "guest"


def test_its_end_is_noticed_and_its_log_is_shown() -> None:
    broker = Broker().start()
    broker.vhost()  # the log is complete when it answers
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(BrokerError, match=r"(?s)status -9:\n.*Server startup complete"):
        broker.vhost()
    broker.reset()
    broker.close()
    broker.close()
    assert "startup complete" in broker.log() and not broker.running
    with pytest.raises(BrokerError, match="not running"):
        broker.vhost()


def test_a_client_that_does_not_answer_does_not_delay_the_end() -> None:
    broker = Broker().start()
    with socket.create_connection((broker.host, broker.port)) as silent:
        broker.close()
        assert silent.recv(1) == b""
    assert broker._process is not None and broker._process.returncode == 0
