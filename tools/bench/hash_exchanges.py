"""A benchmark of x-modulus-hash and x-consistent-hash: prints the tables in docs/plugins.md and measurements.md.

    make bench-hash                                   # about 20 seconds

Keys are routed as the broker routes them, one at a time, but without its cache of routes.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Final

from warren.broker.plugin import Binding, Destination, ExchangeType, Properties, RoutingAddress, Table, framed
from warren.plugins.exchanges.consistent_hash import ConsistentHashExchange
from warren.plugins.exchanges.modulus_hash import ModulusHashExchange

HASH_TYPES: Final[dict[str, Callable[[str, Table], ExchangeType]]] = {
    "x-modulus-hash": ModulusHashExchange,
    "x-consistent-hash": ConsistentHashExchange,
}
MESSAGE: Final = framed(RoutingAddress("x", ""), Properties(), b"")
KEYS: Final = 100_000
RESHUFFLED: Final = (5, 10, 40)  # queues
SPREAD: Final = (5, 10, 40, 100)
COST: Final = (10, 100, 1000)
UNSEEN: Final = 200_000  # draws by which the cost of unseen keys is measured


class SimulatedExchange:
    """An exchange of the hash type `type_name`, with `count` equal queues bound to it."""

    def __init__(self, type_name: str, count: int) -> None:
        self.type = HASH_TYPES[type_name](type_name, Table.EMPTY)
        self._bindings: list[Binding] = []
        for _ in range(count):
            self.add()

    def add(self) -> None:
        """Bind another queue, whose name sorts last."""
        binding = Binding("x", Destination(f"queue-{len(self._bindings):04}"), "1", Table.EMPTY)
        self.type.on_bind(binding)
        self._bindings.append(binding)

    def remove(self, index: int) -> None:
        """Unbind the queue at this index."""
        self.type.on_unbind(self._bindings.pop(index))

    def routes(self, keys: list[tuple[str]]) -> list[Destination]:
        """Return the destination of each key."""
        return [self.type.route(key, MESSAGE)[0] for key in keys]


def keys_from(start: int, count: int) -> list[tuple[str]]:
    return [(f"order-{number}",) for number in range(start, start + count)]


def moved_percent(before: list[Destination], after: list[Destination]) -> float:
    return 100 * sum(old is not new for old, new in zip(before, after, strict=True)) / len(before)


def reshuffled(type_name: str, count: int) -> tuple[float, float]:
    """Return the percentage of keys that move when a queue joins `count` others, and when the middle one leaves."""
    keys = keys_from(0, KEYS)
    bound = SimulatedExchange(type_name, count)
    before = bound.routes(keys)
    bound.add()
    joined = moved_percent(before, bound.routes(keys))
    bound.remove(count)
    bound.remove(count // 2)
    return joined, moved_percent(before, bound.routes(keys))


def spread_percent(type_name: str, count: int) -> float:
    """Return the greatest deviation of a queue from an equal share of the keys, in percent."""
    routes = SimulatedExchange(type_name, count).routes(keys_from(0, KEYS))
    got = dict.fromkeys(routes, 0)
    for destination in routes:
        got[destination] += 1
    fair = KEYS / count
    return 100 * max(abs(many - fair) / fair for many in got.values())


def cost_us(type_name: str, count: int) -> tuple[float, float]:
    """Return microseconds of processor time to route a key first seen since the bindings changed, and a known one."""
    bound = SimulatedExchange(type_name, count)
    bound.routes(keys_from(0, 1))
    keys = keys_from(1, UNSEEN // count)
    return timed_us(bound, keys), timed_us(bound, keys)


def timed_us(bound: SimulatedExchange, keys: list[tuple[str]]) -> float:
    start = time.process_time()
    bound.routes(keys)
    return (time.process_time() - start) / len(keys) * 1e6


def lines() -> Iterator[str]:
    yield f"| {KEYS:,} keys, equal queues | " + " | ".join(HASH_TYPES) + " |"
    yield "|---|" + "---|" * len(HASH_TYPES)
    for count in RESHUFFLED:
        found = [reshuffled(name, count) for name in HASH_TYPES]
        yield row(f"keys that move when one joins {count}", [f"{joined:.1f} %" for joined, _ in found])
        yield row(f"keys that move when one of {count} leaves", [f"{left:.1f} %" for _, left in found])
    for count in SPREAD:
        off = [spread_percent(name, count) for name in HASH_TYPES]
        yield row(f"farthest from its share, of {count}", [f"{percent:.1f} %" for percent in off])
    for count in COST:
        costs = [cost_us(name, count) for name in HASH_TYPES]
        yield row(f"route of an unseen key, {count} queues", [f"{unseen:.1f} µs" for unseen, _ in costs])
        yield row(f"route of a key seen before, {count} queues", [f"{seen:.1f} µs" for _, seen in costs])


def row(what: str, cells: list[str]) -> str:
    return f"| {what} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tools.bench.hash_exchanges", description=__doc__).parse_args()
    for line in lines():
        print(line, flush=True)
