"""Two virtual hosts and a link of federation between them: of two Warrens, of one, of a RabbitMQ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from tests.acceptance.federation.interop.rabbit import Rabbit, missing
from tests.support.federated_broker import FederatedBroker
from tests.support.polling import until

from .client import Connection
from .generator import Result, declare, drop, measure
from .loads import Load
from .process import Broker

RABBITMQ = "rabbitmq"
OURS = ("warren", "one warren")  # of two processes, and of one
UPSTREAM, DOWNSTREAM = "upstream", "downstream"  # virtual hosts
EXCHANGE = "bench.federated"
POLICIES = {"exchanges": f"^{EXCHANGE}", "queues": "^bench\\.Q"}
SET_UP_WITHIN_S = 30.0
LINK = "federation: "  # the prefix of links' queues at an upstream

# Rates of publishing for links that carry less when they are flooded. The ratios are those to RabbitMQ.
RATES = (4_500, 6_000, 8_000, 10_000, 12_500, 15_000, 20_000)
KEEPS_UP = 0.95  # the share of its load that a link must carry before a higher rate is tried
LATENCY_RATE_PER_S = 2000
FEDERATED = Load(
    "E", "exchange", "a topic exchange, one key", wanted=2.0, exchange=EXCHANGE, exchange_type="topic", numbered=True
)
QUEUE = Load("Q", "queue", "a queue link", wanted=2.0, numbered=True)
PACED = replace(FEDERATED, rate_per_s=LATENCY_RATE_PER_S)
LINKS = (
    FEDERATED,
    replace(FEDERATED, letter="D", name="exch durable", shows="persistent", durable=True),
    replace(FEDERATED, letter="K", name="exch keys", shows="20,000 keys in turn", keys=20_000),
    QUEUE,
    replace(QUEUE, name="queue durable", shows="persistent", durable=True),
)


class HTTPBroker(Protocol):
    """A broker with the HTTP API of RabbitMQ."""

    @property
    def port(self) -> int: ...

    def ask(self, method: str, path: str, body: object = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Place:
    """One virtual host of a broker."""

    peer: HTTPBroker
    broker: Broker

    @classmethod
    def of(cls, peer: HTTPBroker, name: str, vhost: str) -> Place:
        """Makes it."""
        peer.ask("PUT", f"/vhosts/{vhost}")
        peer.ask("PUT", f"/permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        pid = until(lambda: peer.ask("GET", "/nodes")[0].get("os_pid"), "a pid")  # RabbitMQ looks every some seconds
        return cls(peer, Broker(name, peer.port, int(pid), vhost=vhost))

    @property
    def uri(self) -> str:
        return f"amqp://127.0.0.1:{self.broker.port}/{self.broker.vhost}"

    def listed(self, what: str) -> list[dict[str, Any]]:
        """Return objects of the virtual host, such as queues."""
        found: list[dict[str, Any]] = self.peer.ask("GET", f"/{what}/{self.broker.vhost}")
        return found

    def connect(self) -> Connection:
        return Connection(self.broker.port, self.broker.vhost)

    def set(self, kind: str, name: str, body: object) -> None:
        """Set a parameter or a policy."""
        self.peer.ask("PUT", f"/{kind}/{self.broker.vhost}/{name}", body)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of brokers: everything that matches POLICIES at `down` is federated with `up`."""

    name: str
    up: Place
    down: Place

    @classmethod
    def of(cls, name: str, upstream: HTTPBroker, downstream: HTTPBroker) -> Pair:
        pair = cls(name, Place.of(upstream, name, UPSTREAM), Place.of(downstream, name, DOWNSTREAM))
        pair.feed_from(pair.up.uri)
        for kind in POLICIES:
            pair.federate(kind)
        return pair

    def federate(self, kind: str) -> None:
        policy = {"pattern": POLICIES[kind], "apply-to": kind, "definition": {"federation-upstream-set": "all"}}
        self.down.set("policies", kind, policy)

    def unfederate(self, kind: str) -> None:
        self.down.peer.ask("DELETE", f"/policies/{DOWNSTREAM}/{kind}")

    def feed_from(self, uri: str, name: str = "up") -> None:
        value = {"uri": uri, "ack-mode": "on-confirm", "reconnect-delay": 1}
        self.down.set("parameters/federation-upstream", name, {"value": value})

    @contextmanager
    def linked(self, load: Load) -> Iterator[None]:
        """Declare the exchange or queue of the load at both ends, and wait until the link between them runs."""
        up, down = self.up.connect(), self.down.connect()
        try:
            declare(load, down)
            if load.exchange:
                up.declare_exchange(load.exchange, load.exchange_type, load.durable)
            else:
                declare(load, up)
            until(partial(self.runs, load), lambda: f"a link that runs: {self.rows()}", SET_UP_WITHIN_S)
            yield
            # The broker reads messages of an ended publisher later: the queue must be gone before the next run.
            until(self.publishers_are_gone, "the end of the publishers", SET_UP_WITHIN_S)
            drop(load, down)
            until(lambda: not self.rows(), lambda: f"no link: {self.rows()}", SET_UP_WITHIN_S)
            self._sweep(up)
            if load.exchange:
                up.delete_exchange(load.exchange)
            else:
                drop(load, up)
            up.close()
            down.close()
        finally:
            up.socket.close()
            down.socket.close()

    def publishers_are_gone(self) -> bool:
        """Return whether no publisher is connected upstream: links have names, and one connection is our own."""
        found = self.up.peer.ask("GET", f"/vhosts/{UPSTREAM}/connections")
        return sum(not one.get("client_properties") for one in found) <= 1

    def _sweep(self, up: Connection) -> None:
        """Delete the queues that RabbitMQ's links leave at the upstream."""
        for queue in self.leavings("queues"):
            up.delete_queue(queue)
        for exchange in self.leavings("exchanges"):
            up.delete_exchange(exchange)

    def leavings(self, kind: str) -> list[str]:
        """Return the upstream queues of links, by name."""
        return [one["name"] for one in self.up.listed(kind) if one["name"].startswith(LINK)]

    def rows(self) -> list[dict[str, Any]]:
        return self.down.listed("federation-links")

    def runs(self, load: Load, bindings: int = 1) -> bool:
        if [row["status"] for row in self.rows()] != ["running"]:
            return False
        return not load.exchange or len(self.bindings()) == bindings

    def bindings(self) -> list[str]:
        """Return the routing keys of the upstream bindings."""
        path = f"/exchanges/{UPSTREAM}/{quote(EXCHANGE, '')}/bindings/source"
        found = self.up.peer.ask("GET", path)
        return [one["routing_key"] for one in found if one["destination"].startswith(LINK)]

    def is_gone(self) -> bool:
        return not self.rows() and not self.leavings("queues")


def carried(load: Load, pair: Pair, seconds: float, warmup_s: float) -> Result:
    """Measure the rate of the link. Raises LoadFailed."""
    with pair.linked(load):
        return measure(load, pair.up.broker, seconds, warmup_s, pair.down.broker)


def best(load: Load, pair: Pair, seconds: float, warmup_s: float) -> Result:
    """Measure the highest rate over several rates of publishing. Raises LoadFailed."""
    found = carried(load, pair, seconds, warmup_s)
    for rate_per_s in RATES:
        if rate_per_s > found.received_per_s:
            result = carried(replace(load, rate_per_s=rate_per_s), pair, seconds, warmup_s)
            found = max(found, result, key=lambda one: one.received_per_s)
            if result.received_per_s < KEEPS_UP * rate_per_s:
                break
    return found


@contextmanager
def pairs(folder: Path, *, alone: bool = False) -> Iterator[list[Pair]]:
    """All available pairs of new brokers during the context; omitted ones are printed. `alone`: only two Warrens."""
    with ExitStack() as stack:

        def started(name: str) -> FederatedBroker:
            warren = FederatedBroker(folder / name, name)
            stack.callback(warren.close)
            warren.start()
            return warren

        found = [Pair.of(OURS[0], started("up"), started("down"))]
        if not alone:
            one = started("one")
            found.append(Pair.of(OURS[1], one, one))
            if reason := missing():
                print(f"bench: without RabbitMQ: {reason}", file=sys.stderr)
            else:
                (folder / "rabbit").mkdir()
                rabbit = Rabbit(folder / "rabbit")
                stack.callback(rabbit.close)
                rabbit.start()
                found.append(Pair.of(RABBITMQ, rabbit, rabbit))
        yield found
