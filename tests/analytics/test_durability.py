"""Durability over restarts of real brokers: the confirmed messages that their exports show as kept or lost."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.federated_broker import FederatedBroker
from tests.support.polling import WITHIN_S, until
from warren.plugins.message_log.analysis import verdict
from warren.plugins.message_log.analysis.ledger import Ledger
from warren.plugins.message_log.export.node_state import state_path
from warren.plugins.message_log.file_format import schema

from .checking import ledger_of
from .exporting import whole_files

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]
MESSAGES = 300
PERSISTENT = {"delivery_mode": 2}
TTL_MS = 60_000


class Node(BrokerProcess):
    """A broker that stores messages, and exports into a folder that several share."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder / name, node=f"{name}@test")
        self.name = f"{name}@test"
        self.export = folder / "export"
        self.switch(True)

    def switch(self, enabled: bool) -> None:
        """Switch the export on or off from the next start on."""
        lines = ("message_log.enabled = true", f"message_log.directory = {self.export}")
        self.configure(*lines if enabled else ())

    def publish(self, queue: str, count: int = MESSAGES, properties: Any = PERSISTENT, **declared: Any) -> None:
        """Publish, and wait for all confirms: three records for each message."""
        channel = self.connect().channel()
        channel.declare(queue, **({"durable": True} | declared))
        channel.confirm()
        for _ in range(count):
            channel.publish("", queue, b"body", properties)
        assert channel.confirms(range(1, count + 1))[1] == set()
        if not declared.get("exclusive"):
            channel.client.close()

    def kill_writing(self, records: int) -> None:
        """Kill the broker once its writer has so many records, and wait until their files are finished."""
        until(lambda: self.written() >= records)
        before = len(whole_files(self.export, schema.EVENTS))
        self.kill()
        until(lambda: len(whole_files(self.export, schema.EVENTS)) > before)

    def written(self) -> int:
        """Return how many records the writer has received."""
        state = state_path(self.export, self.name)
        return int(json.loads(state.read_text())["boot"]["row"]) if state.exists() else 0


def kept(folder: Path) -> None:
    """Stop a broker under load, with durable and transient queues, and start it later."""
    with Node(folder, "kept") as node:
        node.publish("q")
        node.publish("timed", arguments={"x-message-ttl": TTL_MS})
        node.publish("late", 20, PERSISTENT | {"expiration": str(TTL_MS)})
        node.publish("transient", properties=None)
        node.publish("volatile", durable=False)
        node.publish("exclusive", exclusive=True)
        node.publish("purged")
        channel = node.connect().channel()
        channel.declare("auto", durable=True, auto_delete=True)
        assert channel.get("purged", no_ack=True) and channel.get("q", no_ack=False)
        node.publish("late", 20)
        load = Load(node)
        load.start()
        until(lambda: load.confirmed > 50)
        node.stop()
        load.join(WITHIN_S)
        node.clock_ahead_s = 2 * TTL_MS / 1000
        node.start()
        node.stop()
        node.start()  # and once more with the recovered messages
        node.stop()


class Load(threading.Thread):
    """A publisher and a consumer that go on until the broker closes their connections."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.confirmed = 0
        self._publisher, self._consumer = node.connect().channel(), node.connect().channel()
        self._publisher.declare("busy", durable=True)
        self._publisher.confirm()
        self._consumer.consume("busy")

    def run(self) -> None:
        try:
            while True:
                self._publisher.publish("", "busy", b"body", PERSISTENT)
                self._publisher.confirms([self.confirmed + 1])
                self.confirmed += 1
                if self.confirmed % 3 == 0:
                    self._consumer.ack(self._consumer.deliveries(1)[0].tag)
        except (AssertionError, OSError, EOFError):
            return


def delete(node: Node) -> None:
    shutil.rmtree(node.data)


def cut(node: Node) -> None:
    """Remove the second half of the journal."""
    for segment in (node.data / "log").iterdir():
        content = segment.read_bytes().rstrip(b"\0")
        segment.write_bytes(content[: len(content) // 2])


def restarted(folder: Path, name: str, kill: bool, damage: Callable[[Node], None] = lambda node: None) -> None:
    """Publish, stop or kill a broker, damage its data, and start it again."""
    with Node(folder, name) as node:
        node.publish("q")
        if kill:
            node.kill_writing(3 * MESSAGES)  # before a snapshot has the queue
        else:
            node.stop()
        damage(node)
        node.start()
        node.stop()


def rolled_back(folder: Path) -> None:
    """Settle all messages and publish as many others, stop, and give the log of the store the files of before."""
    with Node(folder, "back") as node:
        node.publish("q")
        shutil.copytree(node.data / "log", folder / "copy")
        node.connect().channel().drain("q")
        node.publish("q")
        node.stop()
        shutil.rmtree(node.data / "log")
        shutil.copytree(folder / "copy", node.data / "log")
        node.start()
        node.stop()


def off(folder: Path) -> None:
    """Run the broker for a while without any key of the export, and consume messages."""
    with Node(folder, "off") as node:
        node.publish("q")
        node.stop()
        node.switch(False)
        node.start()
        node.connect().channel().drain("q")
        node.stop()
        node.switch(True)
        node.start()
        node.stop()


def committed(folder: Path) -> None:
    """Publish in a transaction, and delete the data after a stop."""
    with Node(folder, "committed") as node:
        channel = node.connect().channel()
        channel.declare("q", durable=True)
        channel.transact()
        for finish in (channel.commit, channel.rollback):
            for _ in range(MESSAGES):
                channel.publish("", "q", b"body", PERSISTENT)
            finish()
        node.stop()
        delete(node)
        node.start()
        node.stop()


def federated(folder: Path) -> None:
    """Take messages over a link, and delete the data of the downstream after a stop."""
    brokers = up, down = FederatedBroker(folder / "up", "up"), FederatedBroker(folder / "down", "down")
    for broker in brokers:
        broker.configure("message_log.enabled = true", f"message_log.directory = {folder / 'export'}")
    with up, down:
        for broker in brokers:
            channel = broker.connect().channel()
            channel.exchange("fed.x", "direct", durable=True)
            channel.declare("q", durable=True)
            channel.bind("q", "fed.x", "k")
        down.federate("^fed\\.", up.uri)
        down.running()
        channel = up.connect().channel()
        until(lambda: sum(queue.startswith("federation: ") for queue in up.queues()) == 1)
        channel.confirm()
        for _ in range(MESSAGES):
            channel.publish("fed.x", "k", b"body", PERSISTENT)
        channel.confirms(range(1, MESSAGES + 1))
        until(lambda: down.queues()["q"] == MESSAGES and down.rows()[0]["unconfirmed"] == 0)
        down.stop()
        shutil.rmtree(down.data)
        down.start()
        for broker in (down, up):
            broker.stop()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    folder = tmp_path_factory.mktemp("durability")
    for scene in (kept, rolled_back, off, committed, federated):
        scene(folder)
    restarted(folder, "deleted", False, delete)
    restarted(folder, "killed", True)
    restarted(folder, "cut", True, cut)
    restarted(folder, "young", True, delete)
    return ledger_of(folder / "export", folder / "stored")


def rows(ledger: Ledger, node: str) -> dict[str, tuple[int, int, int]]:
    """Return the messages of each queue before and after the first restart, and the missing ones."""
    found: dict[str, tuple[int, int, int]] = {}
    boots = [boot.boot_id for boot in ledger.boots if boot.node == node]
    for row in ledger.durability:
        if (row.node, row.boot_id) == (node, boots[0]):
            found[row.queue] = (row.confirmed_before, row.there_after, row.missing)
    return found


def losses(ledger: Ledger, node: str) -> dict[str, int]:
    found = [row for row in ledger.imbalances if (row.node, row.problem) != ("back@test", verdict.AT_RISK)]
    assert {row.problem for row in found} == {verdict.NOT_KEPT}, found
    return {row.queue or "": row.records or 0 for row in found if row.node == node}


def test_after_a_stop_under_load_each_queue_has_what_it_must_have(ledger: Ledger) -> None:
    found = rows(ledger, "kept@test")
    busy = found.pop("busy")
    assert busy[0] > 0 and busy[1] >= busy[0] and busy[2] == 0
    assert found == {
        "q": (MESSAGES, MESSAGES, 0),
        "timed": (MESSAGES, MESSAGES, 0),
        "late": (40, 40, 0),
        "purged": (MESSAGES - 1, MESSAGES - 1, 0),
    }
    assert losses(ledger, "kept@test") == {}


def test_messages_that_have_expired_were_there(ledger: Ledger) -> None:
    first, second, _ = (boot.boot_id for boot in ledger.boots if boot.node == "kept@test")
    at_start = [row for row in ledger.durability if row.boot_id == second and row.queue in ("timed", "late")]
    assert first != second and [row.confirmed_before for row in at_start] == [20], "the rest expired in between"


@pytest.mark.parametrize("node", ["deleted@test", "young@test", "committed@test", "down@test"])
def test_deleted_data_are_lost_after_a_stop_and_after_a_kill_before_any_snapshot(ledger: Ledger, node: str) -> None:
    assert rows(ledger, node) == {"q": (MESSAGES, 0, MESSAGES)}
    assert losses(ledger, node) == {"q": MESSAGES}


def test_a_broker_that_was_killed_has_kept_what_it_confirmed(ledger: Ledger) -> None:
    assert rows(ledger, "killed@test") == {"q": (MESSAGES, MESSAGES, 0)}
    assert losses(ledger, "killed@test") == {}
    assert any("a broker was killed" in reason and "killed@test" in reason for reason in ledger.verdict.reasons)


def test_a_journal_that_was_cut_is_found(ledger: Ledger) -> None:
    before, after, missing = rows(ledger, "cut@test")["q"]
    assert before == MESSAGES and after < MESSAGES and missing == MESSAGES - after
    assert losses(ledger, "cut@test")["q"] == missing


def test_a_run_without_the_export_cannot_be_compared(ledger: Ledger) -> None:
    assert rows(ledger, "off@test") == {} == losses(ledger, "off@test")


def test_a_store_that_goes_back_is_found_though_it_has_as_many_messages(ledger: Ledger) -> None:
    assert rows(ledger, "back@test") == {"q": (MESSAGES, MESSAGES, 0)} and losses(ledger, "back@test") == {}
    (row,) = [row for row in ledger.imbalances if row.node == "back@test"]
    assert (row.queue, row.records) == ("q", MESSAGES)
    (cause,) = [each for each in ledger.verdict.causes if each.startswith("up to")]
    assert cause == f"up to 300 confirmed messages lost with the end of the store (300 of q at back@test {row.boot_id})"
    _, later = (boot for boot in ledger.boots if boot.node == "back@test")
    assert later.store_fault == "lacking"
