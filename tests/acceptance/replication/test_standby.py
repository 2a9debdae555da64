"""A second broker with the same store: it waits, says so, and takes over."""

import http.client
import json
import signal
import socket
from contextlib import suppress

import pytest

from tests.acceptance.replication.conftest import Sites
from tests.faults.crash.test_restarted import PERSISTENT, confirmed
from tests.support.broker_process import WARRENCTL, BrokerProcess, run
from tests.support.polling import until
from tests.support.ports import free_port
from warren.broker.storage.postgresql.ownership import TOKENS

pytestmark = pytest.mark.sockets


def get(port: int, path: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def waiting(broker: BrokerProcess) -> dict[str, object]:
    """Start a broker, and wait until it is a standby."""
    broker.launch()
    return broker.wait_for_event("standby")


def test_a_standby_says_what_it_is_and_serves_no_clients(store_url: str, sites: Sites) -> None:
    active = sites("a", store_url)
    active.start()
    amqp, http_port = free_port(), free_port()
    standby = sites("b", store_url, amqp=f"127.0.0.1:{amqp}", http=f"127.0.0.1:{http_port}")
    event = waiting(standby)
    assert (event["owner"], event["epoch"] // TOKENS) == ("warren@a", 1) and "password" not in str(event["store"])
    for check in ("ready-to-serve-clients", "alarms", "is-in-service"):
        assert get(http_port, f"/api/health/checks/{check}") == (503, {"status": "failed", "reason": "standby"})
    status, answer = get(http_port, "/api/overview")
    assert (status, answer["error"]) == (503, "standby") and "warren@a" not in answer["reason"]
    assert not accepts(amqp)
    active.stop()
    standby.wait_ready()
    assert get(http_port, "/api/health/checks/ready-to-serve-clients")[0] == 200 and accepts(amqp)


def test_warrenctl_names_the_owner_and_stops_a_standby(store_url: str, sites: Sites) -> None:
    active, standby = sites("a", store_url), sites("b", store_url)
    active.start()
    waiting(standby)
    done = run("--data", str(standby.data), "status", module=WARRENCTL)
    assert done.returncode != 0
    assert "this node is a standby, and waits to take over the store of warren@a" in done.stderr
    assert run("--data", str(standby.data), "stop", module=WARRENCTL).returncode == 0
    assert standby.wait() == 0
    text = active.warrenctl("status").stdout
    assert "A confirmed message is on: the memory of one server" in text and "Warning: fsync is off" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_standby_can_be_stopped(store_url: str, sites: Sites, number: signal.Signals) -> None:
    active, standby = sites("a", store_url), sites("b", store_url)
    active.start()
    waiting(standby)
    standby.process.send_signal(number)
    assert standby.wait() == 0
    active.connect().channel().declare("q", durable=True)


def test_what_a_killed_owner_has_confirmed_is_served_by_a_standby(store_url: str, sites: Sites) -> None:
    active, standby = sites("a", store_url), sites("b", store_url)
    active.start()
    bodies = [b"%d" % number for number in range(1000)]
    for _ in range(3):
        client = active.connect()
        client.channel().declare("q", durable=True)
        confirmed(client, "q", bodies)
        waiting(standby)
        active.kill()
        standby.wait_ready()
        channel = standby.connect().channel()
        channel.consume("q")
        contents = channel.deliveries(len(bodies))
        assert [content.body for content in contents] == bodies
        channel.ack(contents[-1].tag, multiple=True)
        until(lambda channel=channel: channel.count("q") == 0)
        channel.close()
        active, standby = standby, active


def test_links_of_a_new_owner_wait_until_the_lease_of_a_killed_one_is_over(store_url: str, sites: Sites) -> None:
    active, standby = sites("a", store_url), sites("b", store_url)
    active.start()
    assert not active.events("federation_suspended")
    waiting(standby)
    active.kill()
    standby.wait_ready()
    assert standby.events("federation_suspended")
    standby.wait_for_event("federation_resumed")


def test_both_brokers_have_one_cluster_name(store_url: str, sites: Sites) -> None:
    active, standby = sites("a", store_url), sites("b", store_url)
    names = []
    active.start()
    waiting(standby)
    for broker in (active, standby):
        names.append(broker.warrenctl("cluster_status", "--formatter", "json").stdout)
        active.stop() if broker is active else None
        standby.wait_ready()
    assert len({json.loads(text)["cluster_name"] for text in names}) == 1


def test_a_stopped_owner_is_replaced_and_ends_when_it_goes_on(store_url: str, sites: Sites) -> None:
    active, standby = sites("a", store_url), sites("b", store_url)
    active.start()
    client = active.connect()
    client.channel().declare("q", durable=True)
    confirmed(client, "q", [b"before"])
    channel = client.channel()
    channel.confirm()
    waiting(standby)
    active.process.send_signal(signal.SIGSTOP)
    channel.publish("", "q", b"late", PERSISTENT)
    standby.wait_ready()
    confirmed(standby.connect(), "q", [b"after"])
    active.process.send_signal(signal.SIGCONT)
    assert active.wait() == 75
    with suppress(OSError):  # it was reset
        client.read_to_end()
    assert client.ended and not client.inbox(channel.number), "a former owner has confirmed a message"
    (line,) = active.events("not_owner")
    assert line["reason"] == "another broker has taken the store over"
    assert standby.connect().channel().drain("q") == [b"before", b"after"]


def test_the_data_folder_is_of_one_broker(store_url: str, sites: Sites) -> None:
    active = sites("a", store_url)
    active.start()
    second = BrokerProcess(active.folder, store=store_url, node="warren@b")
    second.launch()
    assert second.wait() == 73
