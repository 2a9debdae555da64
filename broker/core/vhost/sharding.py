"""Sharding: the policy `shards-per-node`, which gives an exchange durable queues of this node, its shards.

Clients consume and get from the name of the exchange, and have the shard with the fewest consumers. Shards may have
messages: they stay when there is no such policy any more, without their bindings (RabbitMQ's plugin rabbitmq_sharding).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...amqp.errors import AMQPError, PreconditionFailed
from ...amqp.field_table import Table
from ...amqp.limits import SHORT_STRING
from ..exchanges.exchange import Exchange
from ..jobs.scheduler import OBJECT_COST, Job
from ..metadata.policy import SHARD_ROUTING_KEY, SHARDS_PER_NODE
from ..metadata.validation import term
from ..queues.queue import Queue
from .observer import Observer
from .vhost import VHost


class Sharding(NamedTuple):
    """The number of shards of an exchange, and the routing key of their bindings."""

    shards: int
    routing_key: str


@dataclass(slots=True)
class ExchangeShards:
    """The shards of one exchange: as its policy wants them, and as they are, if a job does not change them now."""

    wanted: Sharding | None
    present: Sharding | None = None
    changing: bool = False


class ShardedExchanges(Observer):
    """The observer that declares and binds the shards of exchanges, and unbinds them when their policy ends."""

    def __init__(self, node_name: str, vhosts: Mapping[str, VHost]) -> None:
        self._node_name = node_name
        self._vhosts = vhosts
        self._shards: dict[Exchange, ExchangeShards] = {}

    def start(self) -> None:
        """Declare and bind the shards of restored exchanges that are missing."""
        for vhost in self._vhosts.values():
            for exchange in vhost.exchanges.values():
                self.policy_changed(exchange)

    def exchange_declared(self, exchange: Exchange) -> None:
        self.policy_changed(exchange)

    def exchange_deleted(self, exchange: Exchange) -> None:
        self._shards.pop(exchange, None)

    def policy_changed(self, target: Queue | Exchange) -> None:
        if not isinstance(target, Exchange):
            return
        wanted = sharding_of(target)
        shards = self._shards.get(target)
        if shards is None:
            if wanted is None:
                return
            shards = self._shards[target] = ExchangeShards(wanted)
        shards.wanted = wanted
        vhost = self._vhosts.get(target.vhost)
        if vhost is None or shards.changing or shards.wanted == shards.present:
            return
        shards.changing = True

        def failed() -> None:
            shards.changing = False

        vhost.scheduler.start(f"shards of {target}", self._change(vhost, target, shards), failed)

    def _change(self, vhost: VHost, exchange: Exchange, shards: ExchangeShards) -> Job:
        """Change the shards of an exchange to those that are wanted, also if that changes meanwhile."""
        while shards.wanted != shards.present and self._is_there(vhost, exchange):
            before, wanted = shards.present, shards.wanted
            if before is not None and (wanted is None or wanted.routing_key != before.routing_key):
                for name in shard_names(exchange, before, self._node_name):
                    queue = vhost.queues.get(name)
                    if queue is not None and self._is_there(vhost, exchange):
                        vhost.unbind(exchange.name, queue, before.routing_key, Table.EMPTY)
                        yield OBJECT_COST
            if wanted is not None:
                yield from self._declare(vhost, exchange, wanted)
            shards.present = wanted
        shards.changing = False
        if shards.wanted is None:
            self._shards.pop(exchange, None)

    def _declare(self, vhost: VHost, exchange: Exchange, wanted: Sharding) -> Job:
        """Declare the shards that do not exist, and bind all; report the first one that is refused."""
        refused = ""
        for name in shard_names(exchange, wanted, self._node_name):
            if not self._is_there(vhost, exchange):
                return
            try:
                check_short(name)
                queue = vhost.queues.get(name) or vhost.declare_queue(name, durable=True)
                vhost.check_owner(queue, None, exclusive=False)
                vhost.bind(exchange.name, queue, wanted.routing_key, Table.EMPTY)
            except AMQPError as error:
                refused = refused or error.text
            yield 2 * OBJECT_COST
        if refused:
            fields: dict[str, object] = {"exchange": exchange.name, "vhost": vhost.name, "reason": refused}
            vhost.scheduler.report("shards_refused", "warning", fields)

    def _is_there(self, vhost: VHost, exchange: Exchange) -> bool:
        return vhost.has(exchange) and self._vhosts.get(vhost.name) is vhost


def sharding_of(exchange: Exchange) -> Sharding | None:
    """Return the shards that the policy of an exchange wants, or None if it wants none, as of the default exchange."""
    count, key = exchange.effective.get(SHARDS_PER_NODE), exchange.effective.get(SHARD_ROUTING_KEY, "")
    return Sharding(count, key) if exchange.name and isinstance(count, int) and isinstance(key, str) else None


def shard_name(exchange: str, node_name: str, number: int) -> str:
    return f"sharding: {exchange} - {node_name} - {number}"


def shard_names(exchange: Exchange, sharding: Sharding, node_name: str) -> list[str]:
    return [shard_name(exchange.name, node_name, number) for number in range(sharding.shards)]


def check_short(name: str) -> None:
    """Raise PreconditionFailed (406) for the name of a shard that is too long for a queue."""
    if len(name.encode("utf-8", "surrogateescape")) > SHORT_STRING:
        raise PreconditionFailed(f"queue name '{name}' has more than {SHORT_STRING} bytes")


def is_sharded(vhost: VHost, name: str) -> bool:
    exchange = vhost.exchanges.get(name)
    return exchange is not None and sharding_of(exchange) is not None


def least_shard(vhost: VHost, name: str, node_name: str) -> str:
    """Return the shard with the fewest consumers for the name of a sharded exchange; any other name as it is.

    Raises PreconditionFailed (406) if the exchange has no shards.
    """
    exchange = vhost.exchanges.get(name)
    sharding = sharding_of(exchange) if exchange is not None else None
    if exchange is None or sharding is None:
        return name
    names = shard_names(exchange, sharding, node_name)
    there = [(len(vhost.queues[each].consumers), each) for each in names if each in vhost.queues]
    if not there:
        raise PreconditionFailed(f"Error finding sharded queue for: {term(name)}")
    return min(there)[1]


def check_not_sharded(vhost: VHost, operation: str, name: str) -> None:
    """Refuse an operation on the name of a sharded exchange as a queue. Raises PreconditionFailed (406)."""
    if is_sharded(vhost, name):
        raise PreconditionFailed(f"Can't {operation} sharded queue: {term(name)}")
