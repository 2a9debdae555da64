"""The cache of routes, which is bounded by the memory of its routes."""

from tests.support.queues import new_queue
from tests.support.session import new_node
from warren.broker.core.exchanges.route_cache import LIMIT_BYTES, ROUTE_BYTES, RouteCache
from warren.broker.core.exchanges.router import Route
from warren.broker.core.messages.message import ByteCount, RoutingAddress

EXCHANGE = new_node().vhosts["/"].exchange("amq.direct")
QUEUE = new_queue()


def route(targets: int) -> Route:
    return Route(RoutingAddress("x", "k"), EXCHANGE, (QUEUE,) * targets, False, frozenset())


def test_routes_to_very_many_queues_are_dropped_sooner() -> None:
    cache, wide = RouteCache(ByteCount()), route(4_000)
    for number in range(2_000):
        cache.remember(b"%d" % number, wide)
    assert 300 < len(cache) < LIMIT_BYTES // (8 * 4_000)
    assert list(cache)[-1] == b"1999" and cache.size_bytes <= LIMIT_BYTES
    narrow = route(1)
    for number in range(40_000):
        cache.remember(("x", str(number)), narrow)
    assert 20_000 < len(cache) < LIMIT_BYTES // ROUTE_BYTES


def test_a_route_that_is_larger_than_the_limit_is_not_kept() -> None:
    cache = RouteCache(ByteCount())
    cache.remember(b"k", route(LIMIT_BYTES // 8))
    assert not cache and not cache.size_bytes


def test_a_route_replaced_or_forgotten_counts_no_more() -> None:
    cache = RouteCache(ByteCount())
    for _ in range(10):
        cache.remember(b"k", route(1_000))
    assert cache.size_bytes == ROUTE_BYTES + RoutingAddress("x", "k").size_bytes + 4 + 8_000
    cache.pop(b"k")
    cache.pop(b"k")
    assert not cache.size_bytes
    cache.remember(b"k", route(1))
    cache.clear()
    assert not cache.size_bytes and not cache
