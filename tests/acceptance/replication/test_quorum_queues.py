"""Quorum queues on a disk, and on a server with and without a synchronous standby."""

import signal
from pathlib import Path

import pytest
from pamqp.commands import Queue

from tests.acceptance.replication.conftest import Sites
from tests.faults.crash.test_restarted import confirmed
from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.polling import until
from tests.support.postgresql import Cluster, init

pytestmark = pytest.mark.sockets

QUORUM = {"x-queue-type": "quorum"}
BODY = {"durable": True, "arguments": QUORUM}
KEY = "storage.quorum_requires_replication = true"


def guaranteed(broker: BrokerProcess, queue: str) -> tuple[bool, str]:
    """Return `replicated` and `guarantee` of a quorum queue, by the HTTP API."""
    found = broker.http().get(f"/queues/%2F/{queue}").json
    assert found["members"] == found["online"] == [found["node"]]
    return found["replicated"], found["guarantee"]


def test_on_a_disk_it_is_said_once_and_refused_if_replication_is_required(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--http", ANY_PORT) as broker:
        client = broker.connect()
        channel = client.channel()
        for name in ("q", "other", "q"):
            channel.declare(name, durable=True, arguments=QUORUM)
        confirmed(client, "q", [b"kept"])
        (line,) = broker.events("quorum_queue_not_replicated")
        assert (line["queue"], line["guarantee"]) == ("q", "the disk of this machine")
        assert guaranteed(broker, "q") == (False, "the disk of this machine")
        done = broker.warrenctl("list_queues", "-s", "name", "replicated", "guarantee")
        assert "q\tfalse\tthe disk of this machine" in done.stdout.splitlines()
        document = broker.http().get("/definitions").json
        broker.stop()

        broker.configure(KEY)
        broker.start()
        (line,) = broker.events("quorum_queues_not_replicated")
        assert (line["queues"], line["level"]) == (2, "warning")
        client = broker.connect()
        client.channel().declare("q", durable=True, arguments=QUORUM)
        assert client.channel().drain("q") == [b"kept"]
        closed = client.channel().refused(406, Queue.Declare, queue="new", durable=True, arguments=QUORUM)
        reason = (
            "invalid arg 'x-queue-type' for queue 'new' in vhost '/': \"quorum queues require a replicated store, "
            'but a confirmed message is now on the disk of this machine"'
        )
        assert closed.reply_text == f"PRECONDITION_FAILED - {reason}"
        http = broker.http()
        answer = http.put("/queues/%2F/new", BODY)
        assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})
        assert http.post("/definitions", document).status == 204
        document["queues"] += [{"vhost": "/", "name": "new", **BODY, "auto_delete": False}]
        answer = http.post("/definitions", document)
        assert answer.status == 400 and answer.json["reason"].startswith(reason)
        assert http.get("/queues/%2F/new").status == 404


def test_what_the_server_waits_for_decides_while_the_broker_runs(
    servers: tuple[Cluster, Cluster], sites: Sites
) -> None:
    primary, standby = servers
    broker = sites("a", init(primary.url(standby)), KEY)
    broker.start()
    channel = broker.connect().channel()
    channel.declare("q", durable=True, arguments=QUORUM)
    assert guaranteed(broker, "q") == (True, "the disks of the server and of 1 standby")
    assert not broker.events("quorum_queue_not_replicated")
    primary.set("synchronous_standby_names", "''")
    until(lambda: guaranteed(broker, "q") == (False, "the disk of one server"))
    channel.declare("q", durable=True, arguments=QUORUM)
    closed = channel.refused(406, Queue.Declare, queue="new", durable=True, arguments=QUORUM)
    assert "but a confirmed message is now on the disk of one server" in closed.reply_text
    assert "synchronous_standby_names is empty" in broker.wait_for_event("weak_guarantee")["means"]
    primary.set("synchronous_standby_names", "'standby'")
    until(lambda: guaranteed(broker, "q")[0])
    broker.connect().channel().declare("new", durable=True, arguments=QUORUM)
    broker.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_takeover_that_no_standby_server_confirms_is_said_and_can_be_stopped(
    servers: tuple[Cluster, Cluster], sites: Sites, number: signal.Signals
) -> None:
    primary, _ = servers
    store = init(primary.url())
    broker = sites("a", store)
    primary.set("synchronous_standby_names", "'nobody'")
    broker.launch()
    assert broker.wait_for_event("takeover_waits")["level"] == "warning"
    broker.process.send_signal(number)
    assert broker.wait() == 0
    other = sites("b", store)  # while the server still waits for the standby server
    other.launch()
    other.wait_for_event("takeover_waits")
    other.process.send_signal(number)
    assert other.wait() == 0
