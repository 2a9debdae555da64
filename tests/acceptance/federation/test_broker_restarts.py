"""Federated brokers as processes that are killed, stopped and started again."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.federated_broker import FederatedBroker
from tests.support.federation import CHECK_MS, Site, headers
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.proxy import Proxy
from warren.broker.config.config import Federation
from warren.broker.core.metadata.records import Change, StoredParameter
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

pytestmark = pytest.mark.sockets

SECRET = "hunter2"
UPSTREAM = "federation-upstream"
PERSISTENT = {"delivery_mode": 2}
NUMBERS = [b"%d" % number for number in range(1000)]
_numbers = itertools.count(1)


class Lives:
    """Two brokers, the way from one to the other, and a user of the link's own; for each test an exchange and a queue
    that is bound to it."""

    def __init__(self, folder: Path, loop: LoopThread) -> None:
        self.up, self.down = FederatedBroker(folder / "up", "up"), FederatedBroker(folder / "down", "down")
        self.up.launch()
        self.down.start()
        self.up.wait_ready()
        self.proxy = Proxy(loop, self.up.address)
        self.up.ask("PUT", "/users/linker", {"password": SECRET, "tags": ""})
        self.up.ask("PUT", "/permissions/%2f/linker", {"configure": ".*", "write": ".*", "read": ".*"})
        self.exchange = self.queue = self.upstream_queue = ""

    def begin(self) -> None:
        number = next(_numbers)
        self.exchange, self.queue = f"fed.{number}", f"all.{number}"
        self.upstream_queue = f"federation: {self.exchange} -> down"
        for warren in (self.up, self.down):
            warren.connect().channel().exchange(self.exchange, "direct", durable=True)
        channel = self.down.connect().channel()
        channel.declare(self.queue, durable=True)
        channel.bind(self.queue, self.exchange, "k")

    def end(self) -> None:
        self.proxy.restore()
        for policy in self.down.ask("GET", "/policies/%2f"):
            self.down.ask("DELETE", f"/policies/%2f/{policy['name']}")
        until(lambda: not self.down.rows(), lambda: str(self.down.rows()))

    def link(self, **settings: object) -> None:
        uri = f"amqp://linker:{SECRET}@127.0.0.1:{self.proxy.port}/%2f?password={SECRET}"
        self.down.upstream("up", uri, **settings)
        self.down.policy(f"^{self.exchange}$", {"federation-upstream": "up"})
        self.runs()

    def runs(self) -> None:
        self.down.running()
        self.up.bound(self.exchange, "k")

    def publish(self, bodies: list[bytes] = NUMBERS) -> None:
        """Publish with confirms."""
        channel = self.up.connect().channel()
        channel.confirm()
        for body in bodies:
            channel.publish(self.exchange, "k", body, PERSISTENT)
        channel.confirms(range(1, len(bodies) + 1))

    def settled(self) -> None:
        """Wait until no message is left upstream or unacknowledged."""
        until(lambda: self.up.queues()[self.upstream_queue] == 0, lambda: str((self.up.queues(), self.down.rows())))
        until(lambda: self.down.running()[0]["unconfirmed"] == 0, lambda: str(self.down.rows()))

    def came(self) -> list[bytes]:
        """All that came, in the end."""
        self.settled()
        return self.down.connect().channel().drain(self.queue)

    def tells_no_secret(self) -> None:
        """Neither log, status nor metrics."""
        for warren in (self.up, self.down):
            assert SECRET not in warren.output.read_text()
        assert SECRET not in str(self.down.rows()) and SECRET not in self.down.metrics()

    def close(self) -> None:
        self.proxy.close()
        self.up.close()
        self.down.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, loop: LoopThread) -> Iterator[Lives]:
    lives = Lives(tmp_path_factory.mktemp("lives"), loop)
    yield lives
    lives.close()


@pytest.fixture
def lives(pair: Lives) -> Iterator[Lives]:
    pair.begin()
    yield pair
    pair.end()


def test_what_a_killed_broker_had_not_confirmed_comes_again(lives: Lives) -> None:
    refuse = {"max-length": 0, "overflow": "reject-publish"}
    lives.down.policy(f"^{lives.queue}$", refuse, "full")
    lives.link(prefetch_count=10)
    lives.publish(NUMBERS[:20])
    path = f"/queues/%2f/{quote(lives.upstream_queue)}"
    until(lambda: lives.up.ask("GET", path).get("messages_unacknowledged") == 10, "ten that are under way")
    lives.down.kill()
    lives.down.start()
    lives.runs()
    lives.down.ask("DELETE", "/policies/%2f/full")
    until(lambda: lives.down.queues()[lives.queue] == 20, lambda: str(lives.down.queues()))
    channel = lives.down.connect().channel()
    for number in range(20):
        message = channel.get(lives.queue)
        assert message is not None and message.body == b"%d" % number
        ((_, entry),) = headers(message)["x-received-from"][1]
        assert dict(entry)["redelivered"] == ("t", number < 10)


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish"])
def test_what_an_upstream_that_is_killed_had_confirmed_arrives(lives: Lives, mode: str) -> None:
    lives.link(ack_mode=mode, prefetch_count=100)
    lives.proxy.delay_s = 0.2  # so that much is under way
    lives.publish()
    lives.up.kill()
    lives.down.down()
    lives.proxy.delay_s = 0.0
    lives.up.start()
    lives.proxy.target = lives.up.address
    lives.runs()
    assert list(dict.fromkeys(lives.came())) == NUMBERS
    lives.tells_no_secret()


@pytest.mark.parametrize("end", [FederatedBroker.kill, FederatedBroker.stop])
def test_what_comes_while_this_broker_is_down_waits_for_it(
    lives: Lives, end: Callable[[FederatedBroker], None]
) -> None:
    lives.link()
    lives.publish([b"before"])
    until(lambda: lives.down.queues()[lives.queue] == 1, "the first")
    lives.settled()
    id_ = lives.down.rows()[0]["id"]
    end(lives.down)
    lives.publish()
    lives.down.start()
    lives.runs()
    assert lives.came() == [b"before", *NUMBERS]
    assert lives.down.rows()[0]["id"] == id_
    internals = [name for name in lives.up.exchanges() if name.startswith(lives.upstream_queue)]
    assert internals == [f"{lives.upstream_queue} A"]
    lives.tells_no_secret()


def test_a_broker_that_is_to_clean_up_when_it_stops_does_so(loop: LoopThread) -> None:
    config = Federation(internal_exchange_check_interval=CHECK_MS, graceful_shutdown_cleanup=True)
    site = Site(loop, "tidy", federation=config)
    try:
        up, down = site.place(), site.place()
        down.ch.exchange("fed.x", "direct")
        here = down.listener("fed.x", "k")
        down.link("^fed", up.inside)
        loop.run(site.stop_federating())
        assert (up.queues(), up.exchanges()) == ([], ["fed.x"])
        up.ch.publish("fed.x", "k", b"for nobody")
        loop.run(site.begin_federating())
        down.running()
        up.bound("fed.x", "k")
        up.ch.publish("fed.x", "k", b"for somebody")
        assert down.bodies(here, 1) == [b"for somebody"]
    finally:
        site.close()


def test_a_stored_uri_that_cannot_be_understood_stops_nothing_else(lives: Lives) -> None:
    lives.link()
    odd = f"{lives.exchange}.odd"
    lives.down.upstream("odd", "amqp://127.0.0.1:1")
    lives.down.connect().channel().exchange(odd, "fanout", durable=True)
    lives.down.policy("odd$", {"federation-upstream": "odd"}, "odd")
    lives.down.stop()
    with closing(SQLiteMetadata(lives.down.data / "meta.sqlite")) as stored:
        value = f'{{"uri": "amqp://me:{SECRET}@odd:port/x?heartbeat={SECRET}"}}'
        (record,) = [each for each in stored.load().parameters if each.name == "odd" and each.component == UPSTREAM]
        stored.apply([Change(True, StoredParameter("/", UPSTREAM, "odd", value, record.user))])
    lives.down.start()

    def statuses() -> dict[str, str]:
        return {row["exchange"]: row["status"] for row in lives.down.rows()}

    expected = {lives.exchange: "running", odd: "invalid_upstream_uri"}
    until(lambda: statuses() == expected, lambda: str(lives.down.rows()))
    lives.publish([b"flows"])
    until(lambda: lives.down.queues()[lives.queue] == 1, "it")
    lives.tells_no_secret()


def test_a_broker_starts_though_its_upstream_does_not_answer(lives: Lives) -> None:
    lives.link()
    lives.proxy.cut()
    lives.down.stop()
    lives.down.start()
    assert lives.down.down()["status"] == "error"
    lives.down.connect().channel().publish(lives.exchange, "k", b"from here")
    until(lambda: lives.down.queues()[lives.queue] == 1, "it")
    lives.proxy.restore()
    lives.runs()


def test_no_failure_tells_the_password(lives: Lives) -> None:
    lives.link()
    lives.proxy.cut()
    lives.down.down()
    lives.proxy.restore()
    lives.runs()
    uris = [
        f"amqp://linker:{SECRET}@127.0.0.1:1/%2f?password={SECRET}",
        f"amqp://nobody:{SECRET}@127.0.0.1:{lives.proxy.port}/%2f?password={SECRET}",
        f"amqp://linker:{SECRET}@127.0.0.1:{lives.proxy.port}/nowhere",
        f"amqps://linker:{SECRET}@127.0.0.1:{lives.proxy.port}?verify=verify_none&password={SECRET}",
        f"amqps://linker:{SECRET}@127.0.0.1:{lives.proxy.port}?cacertfile=/nowhere&password={SECRET}",
        f"amqp://nobody:{SECRET}@/%2f",
    ]
    for uri in uris:
        lives.down.upstream("up", uri)
        safe = uri.partition("?")[0].replace(f"linker:{SECRET}@", "").replace(f"nobody:{SECRET}@", "")
        until(lambda safe=safe: lives.down.rows()[0]["uri"] == safe, lambda: str(lives.down.rows()))  # type: ignore[misc]
        until(lambda: lives.down.rows()[0].get("error"), lambda: str(lives.down.rows()))
        lives.tells_no_secret()
