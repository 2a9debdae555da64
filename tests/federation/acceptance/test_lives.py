"""Scenarios 27, 47, 68, 70, 71 and 103: brokers as processes that are killed, stopped and started again."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp import Client
from tests.support.background import BackgroundLoop
from tests.support.federation import headers, until
from tests.support.proxy import Proxy
from tests.support.warrens import Warren

pytestmark = pytest.mark.sockets

SECRET = "hunter2"
PERSISTENT = {"delivery_mode": 2}
QUEUE = "federation: fed.x -> down"
NUMBERS = [b"%d" % number for number in range(1000)]


class Lives:
    """Two brokers, the way from one to the other, and a user of the link's own."""

    def __init__(self, folder: Path, loop: BackgroundLoop, config: str = "") -> None:
        self.up, self.down = Warren(folder / "up", "up"), Warren(folder / "down", "down")
        self.config = folder / "down.conf"
        self.config.write_text(config)
        self.up.start()
        self.down.start(config=self.config)
        self.proxy = Proxy(loop, self.up.address)
        self.up.ask("PUT", "/users/linker", {"password": SECRET, "tags": ""})
        self.up.ask("PUT", "/permissions/%2f/linker", {"configure": ".*", "write": ".*", "read": ".*"})
        for warren in (self.up, self.down):
            warren.connect().channel().exchange("fed.x", "direct", durable=True)
        channel = self.down.connect().channel()
        channel.declare("all", durable=True)
        channel.bind("all", "fed.x", "k")

    def link(self, **settings: object) -> None:
        uri = f"amqp://linker:{SECRET}@127.0.0.1:{self.proxy.port}/%2f?password={SECRET}"
        self.down.federate("^fed", uri, **settings)
        self.runs()

    def runs(self) -> None:
        self.down.running()
        self.up.bound("fed.x", "k")

    def publish(self, bodies: list[bytes] = NUMBERS) -> None:
        """With confirms."""
        channel = self.up.connect().channel()
        channel.confirm()
        for body in bodies:
            channel.publish("fed.x", "k", body, PERSISTENT)
        channel.confirms(range(1, len(bodies) + 1))

    def came(self) -> list[bytes]:
        """All that came, once nothing is left upstream."""
        until(lambda: self.up.queues()[QUEUE] == 0, lambda: str((self.up.queues(), self.down.rows())))
        until(lambda: self.down.running()[0]["unconfirmed"] == 0, lambda: str(self.down.rows()))
        return self.down.connect().channel().drain("all")

    def tells_no_secret(self) -> None:
        """Neither log, status nor metrics."""
        for warren in (self.up, self.down):
            assert SECRET not in warren.log.read_text()
        assert SECRET not in str(self.down.rows()) and SECRET not in self.down.metrics()

    def close(self) -> None:
        self.proxy.close()
        self.up.close()
        self.down.close()


@pytest.fixture
def lives(tmp_path: Path, loop: BackgroundLoop) -> Iterator[Lives]:
    lives = Lives(tmp_path, loop)
    yield lives
    lives.close()


# 47


def test_047_what_a_killed_broker_had_not_confirmed_comes_again(lives: Lives) -> None:
    refuse = {"max-length": 0, "overflow": "reject-publish"}
    lives.down.ask("PUT", "/policies/%2f/full", {"pattern": "^all$", "definition": refuse, "apply-to": "queues"})
    lives.link(prefetch_count=10)
    lives.publish(NUMBERS[:20])
    unacked = "messages_unacknowledged"
    until(lambda: lives.up.ask("GET", "/queues/%2f/federation%3A%20fed.x%20-%3E%20down").get(unacked) == 10, "10 taken")
    lives.down.kill()
    lives.down.start(config=lives.config)
    lives.runs()
    lives.down.ask("DELETE", "/policies/%2f/full")
    until(lambda: lives.down.queues()["all"] == 20, lambda: str(lives.down.queues()))
    channel = lives.down.connect().channel()
    for number in range(20):
        message = channel.get("all")
        assert message is not None and message.body == b"%d" % number
        ((_, entry),) = headers(message)["x-received-from"][1]
        assert dict(entry)["redelivered"] == ("t", number < 10)


# 68


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish"])
def test_068_what_was_confirmed_by_an_upstream_that_is_killed_arrives(lives: Lives, mode: str) -> None:
    lives.link(ack_mode=mode, prefetch_count=100)
    lives.proxy.delay_s = 0.2  # so that much is under way
    lives.publish()
    lives.up.kill()
    lives.down.down()
    lives.proxy.delay_s = 0.0
    lives.up.start()
    lives.proxy.target = lives.up.address
    lives.runs()
    came = lives.came()
    assert list(dict.fromkeys(came)) == NUMBERS
    assert len(came) - len(NUMBERS) <= 100 + 1000
    lives.tells_no_secret()


# 70 and 71


def test_070_what_comes_while_this_broker_is_dead_waits_for_it(lives: Lives) -> None:
    lives.link()
    lives.publish([b"before"])
    until(lambda: lives.down.queues()["all"] == 1, "the first")
    lives.down.kill()
    lives.publish()
    lives.down.start(config=lives.config)
    lives.runs()
    assert lives.came() == [b"before", *NUMBERS]
    assert lives.up.exchanges() == ["fed.x", f"{QUEUE} A"]
    lives.tells_no_secret()


def test_071_what_comes_while_this_broker_is_stopped_waits_for_it(lives: Lives) -> None:
    lives.link()
    lives.down.stop()
    lives.publish()
    lives.down.start(config=lives.config)
    lives.runs()
    assert lives.came() == NUMBERS


def test_071_a_broker_that_is_to_clean_up_when_it_stops_does_so(tmp_path: Path, loop: BackgroundLoop) -> None:
    lives = Lives(tmp_path, loop, "federation.graceful_shutdown_cleanup = true\n")
    try:
        lives.link()
        lives.down.stop()
        assert QUEUE not in lives.up.queues() and lives.up.exchanges() == ["fed.x"]
        lives.publish([b"for nobody"])
        lives.down.start(config=lives.config)
        lives.runs()
        lives.publish([b"for somebody"])
        assert lives.came() == [b"for somebody"]
    finally:
        lives.close()


# 27, 29 and 103


def test_027_a_stored_uri_that_cannot_be_understood_stops_nothing_else(lives: Lives) -> None:
    lives.link()
    lives.down.upstream("odd", "amqp://odd")
    lives.down.connect().channel().exchange("odd.x", "fanout", durable=True)
    lives.down.policy("^odd", {"federation-upstream": "odd"}, "odd")
    lives.down.stop()
    with sqlite3.connect(lives.down.data / "meta.sqlite") as stored:
        changed = stored.execute(
            "UPDATE parameters SET value = ? WHERE name = CAST('odd' AS BLOB) AND component LIKE 'federation-upstream'",
            (f'{{"uri": "amqp://me:{SECRET}@odd:port/x?heartbeat={SECRET}"}}'.encode(),),
        )
        assert changed.rowcount == 1
    lives.down.start(config=lives.config)
    rows = until(
        lambda: {row["exchange"]: row for row in lives.down.rows()}
        if {row["status"] for row in lives.down.rows()} == {"running", "invalid_upstream_uri"}
        else None,
        lambda: str(lives.down.rows()),
    )
    assert rows["fed.x"]["status"] == "running" and rows["odd.x"]["error"]
    lives.publish([b"flows"])
    assert lives.came() == [b"flows"]
    lives.tells_no_secret()


def test_029_a_broker_starts_though_its_upstream_does_not_answer(lives: Lives) -> None:
    lives.link()
    lives.proxy.cut()
    lives.down.stop()
    lives.down.start(config=lives.config)
    assert lives.down.down()["status"] == "error"
    client: Client = lives.down.connect()
    client.channel().publish("fed.x", "k", b"from here")
    until(lambda: lives.down.queues()["all"] == 1, "it")
    lives.proxy.restore()
    lives.runs()


def test_103_no_failure_tells_the_password(lives: Lives) -> None:
    lives.link()
    lives.proxy.cut()
    lives.down.down()
    lives.proxy.restore()
    lives.runs()
    lives.up.ask("PUT", "/users/linker", {"password": "another", "tags": ""})
    lives.proxy.blink()
    until(lambda: "ACCESS_REFUSED" in str(lives.down.rows()), lambda: str(lives.down.rows()))
    lives.down.upstream("u0", f"amqp://linker:{SECRET}@127.0.0.1:1/%2f?password={SECRET}")
    row = lives.down.down()
    until(lambda: lives.down.rows()[0]["retries"] > 2, lambda: str(row))
    lives.down.upstream("u0", f"amqps://linker:{SECRET}@127.0.0.1:{lives.proxy.port}?verify=verify_none&password={SECRET}")
    until(lambda: lives.down.rows()[0]["uri"].startswith("amqps"), lambda: str(lives.down.rows()))
    until(lambda: lives.down.rows()[0]["retries"] > 0, lambda: str(lives.down.rows()))
    lives.tells_no_secret()
    lives.down.stop()
    assert SECRET not in lives.down.log.read_text()
