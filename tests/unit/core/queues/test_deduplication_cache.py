"""The cache of a queue or an exchange that drops duplicates: what it remembers, and how much one step changes."""

import pytest

from tests.support.session import new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.deduplicating import DeduplicatingExchange
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.queues.deduplication import PART_SIZE, SPARE, Deduplication

NOW_MS = 0
LARGEST = 10_000_000
MESSAGE = framed(RoutingAddress("", "q"), Properties(), b"")


def cache_of(size: int, values: int) -> tuple[Deduplication, list[bytes]]:
    """Return a cache of this size to which so many values were added, and their keys."""
    cache = Deduplication(Table.of({"x-cache-size": size}))
    keys = []
    for value in range(values):
        message = framed(RoutingAddress("", "q"), Properties(headers=Table.of({"x-deduplication-header": value})), b"")
        keys.append(cache.key_of(message))
        cache.add(keys[-1], MESSAGE, NOW_MS)
    return cache, keys


@pytest.mark.parametrize("size", [1, 128, PART_SIZE, PART_SIZE + 1])
def test_the_last_values_are_remembered_and_few_more(size: int) -> None:
    cache, keys = cache_of(size, size + 5_000)
    assert all(cache.has_seen(key, NOW_MS) for key in keys[-size:])
    assert sum(cache.has_seen(key, NOW_MS) for key in keys) <= (size if size <= PART_SIZE else size + 2 * SPARE)


def test_no_part_of_a_large_cache_grows_long() -> None:
    cache, _ = cache_of(LARGEST, 50_000)
    assert max(map(len, cache._parts)) < PART_SIZE // 50 and cache._part_size <= PART_SIZE + SPARE
    freed = list(cache.release())
    assert sum(freed) == 50_000 and max(freed) < PART_SIZE // 50 and not any(map(len, cache._parts))


@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_a_cache_is_freed_with_its_queue_or_exchange_in_steps(kind: str) -> None:
    node = new_node()
    vhost = node.vhosts["/"]
    arguments = Table.of({"x-message-deduplication": True, "x-cache-size": LARGEST})
    queue = vhost.declare_queue("q", arguments=arguments)
    exchange = vhost.declare_exchange("x", "fanout", arguments=arguments)
    assert isinstance(exchange.type, DeduplicatingExchange)
    cache = queue.deduplication if kind == "queue" else exchange.type.deduplication
    assert cache is not None
    for value in range(50_000):
        cache.add(value.to_bytes(4, "big"), MESSAGE, NOW_MS)
    if kind == "queue":
        vhost.delete_queue(queue)
    else:
        vhost.delete_exchange("x")
    assert 0 < sum(map(len, cache._parts)) < 50_000
    assert node.scheduler.finish_all() and not any(map(len, cache._parts))
