"""The cached routes of one user's publishes in one virtual host, bounded by their memory."""

from itertools import islice
from typing import Final

from ..messages.message import ByteCount
from ..queues.route_target import Targets
from .router import Route, RouteKey

LIMIT_BYTES: Final = 16 << 20  # of all routes, estimated; beyond it the oldest are dropped
ROUTE_BYTES: Final = 420  # of a route beside its address, and its key beside exchange and routing key
TARGET_BYTES: Final = 8  # of each queue of a route


class RouteCache(dict[RouteKey, Route]):
    """Routes by their keys, until the topology or a permission changes; `remember` adds one.

    Their addresses count in the size of the cache. One that it drops counts in memory as long as messages have it.
    `largest_cost` is not exceeded by the cost of any of them. Consecutive routes to the same very many queues have one
    tuple of targets, so that their messages are found to be one run.
    """

    __slots__ = ("size_bytes", "largest_cost", "_many", "_addresses", "_address_bytes")

    def __init__(self, addresses: ByteCount) -> None:
        super().__init__()
        self.size_bytes = 0
        self._addresses = addresses
        self._address_bytes = 0  # of routes that are here, which do not count in `_addresses`
        self.largest_cost = 1
        self._many: Targets = ()

    def remember(self, key: RouteKey, route: Route) -> None:
        """Add a route. If there are too many, an eighth of them is dropped at a time, the oldest first."""
        self.pop(key)
        self[key] = route
        route.address.count(self._addresses)
        self._exempt(route.address.size_bytes)
        self.largest_cost = max(self.largest_cost, route.cost)
        if route.search is not None:
            route.key = key
        if route.queues is None and route.targets is not None:
            if route.targets != self._many:
                self._many = route.targets
            route.targets = self._many
        self.size_bytes += size_of(route)
        while self.size_bytes > LIMIT_BYTES and self:
            for oldest in list(islice(self, len(self) // 8 + 1)):
                self.pop(oldest)

    def complete(self, route: Route) -> None:
        """Complete a route whose search has ended. It may have been dropped from the cache meanwhile."""
        key = route.key
        cached = key is not None and self.get(key) is route
        if key is not None and cached:
            self.pop(key)
        route.complete()
        if key is not None and cached:
            self.remember(key, route)

    def pop(self, key: RouteKey, default: None = None) -> Route | None:  # type: ignore[override]
        """Remove a route and return it, or None if it is not there."""
        route = super().pop(key, None)
        if route is not None:
            self.size_bytes -= size_of(route)
            self._exempt(-route.address.size_bytes)
        return route

    def _exempt(self, size_bytes: int) -> None:
        self._address_bytes += size_bytes
        self._addresses.total -= size_bytes

    def clear(self) -> None:
        self._exempt(-self._address_bytes)
        super().clear()
        self.size_bytes = 0
        self.largest_cost = 1
        self._many = ()


def size_of(route: Route) -> int:
    address = route.address
    return ROUTE_BYTES + address.size_bytes + len(address.encoded) + TARGET_BYTES * len(route.targets or ())
