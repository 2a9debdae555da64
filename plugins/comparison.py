"""x-modulus-hash and x-consistent-hash side by side, in figures, as the table in README.md has them.

    python -m warren.plugins.comparison

Routes are asked for as the broker asks, one key at a time, without the memory in which it keeps the routes of keys.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Final

from warren.broker.plugin import Address, Binding, Destination, ExchangeType, Properties, Table, framed

from .exchanges.consistent_hash import ConsistentHashExchange
from .exchanges.modulus_hash import ModulusHashExchange

TYPES: Final[dict[str, Callable[[str, Table], ExchangeType]]] = {
    "x-modulus-hash": ModulusHashExchange,
    "x-consistent-hash": ConsistentHashExchange,
}
KEYS: Final = 100_000
RESHUFFLED: Final = (5, 10, 40)  # queues
SPREAD: Final = (5, 10, 40, 100)
COST: Final = (10, 100, 1000)
UNSEEN: Final = 200_000  # draws, in the time of which the cost of unseen keys is measured
MESSAGE: Final = framed(Address("x", ""), Properties(), b"")


class Bound:
    """An exchange of a type, and equal queues that come and go."""

    def __init__(self, type_name: str, count: int) -> None:
        self.type = TYPES[type_name](type_name, Table.EMPTY)
        self._bindings: list[Binding] = []
        for _ in range(count):
            self.add()

    def add(self) -> None:
        """One more queue, whose name is the last."""
        binding = Binding("x", Destination(f"queue-{len(self._bindings):04}"), "1", Table.EMPTY)
        self.type.on_bind(binding)
        self._bindings.append(binding)

    def remove(self, index: int) -> None:
        self.type.on_unbind(self._bindings.pop(index))

    def routes(self, keys: list[tuple[str]]) -> list[Destination]:
        """Where each key goes."""
        return [self.type.route(key, MESSAGE)[0] for key in keys]


def keys_from(start: int, count: int) -> list[tuple[str]]:
    return [(f"order-{number}",) for number in range(start, start + count)]


def moved_percent(before: list[Destination], after: list[Destination]) -> float:
    return 100 * sum(old is not new for old, new in zip(before, after, strict=True)) / len(before)


def reshuffled(type_name: str, count: int) -> tuple[float, float]:
    """How many percent of the keys move when a queue joins so many, and when the one in their middle leaves."""
    keys = keys_from(0, KEYS)
    bound = Bound(type_name, count)
    before = bound.routes(keys)
    bound.add()
    joined = moved_percent(before, bound.routes(keys))
    bound.remove(count)
    bound.remove(count // 2)
    return joined, moved_percent(before, bound.routes(keys))


def spread_percent(type_name: str, count: int) -> float:
    """By how much the queue that is farthest from an equal share of the keys is off."""
    routes = Bound(type_name, count).routes(keys_from(0, KEYS))
    got = dict.fromkeys(routes, 0)
    for destination in routes:
        got[destination] += 1
    fair = KEYS / count
    return 100 * max(abs(many - fair) / fair for many in got.values())


def cost_us(type_name: str, count: int) -> tuple[float, float]:
    """Microseconds of processor time for a key that was not seen since the bindings changed, and for one that was."""
    bound = Bound(type_name, count)
    bound.routes(keys_from(0, 1))
    keys = keys_from(1, UNSEEN // count)
    return timed_us(bound, keys), timed_us(bound, keys)


def timed_us(bound: Bound, keys: list[tuple[str]]) -> float:
    start = time.process_time()
    bound.routes(keys)
    return (time.process_time() - start) / len(keys) * 1e6


def lines() -> Iterator[str]:
    yield f"| {KEYS:,} keys, equal queues | " + " | ".join(TYPES) + " |"
    yield "|---|" + "---|" * len(TYPES)
    for count in RESHUFFLED:
        found = [reshuffled(name, count) for name in TYPES]
        yield row(f"keys that move when one joins {count}", [f"{joined:.1f} %" for joined, _ in found])
        yield row(f"keys that move when one of {count} leaves", [f"{left:.1f} %" for _, left in found])
    for count in SPREAD:
        off = [spread_percent(name, count) for name in TYPES]
        yield row(f"farthest from its share, of {count}", [f"{percent:.1f} %" for percent in off])
    for count in COST:
        costs = [cost_us(name, count) for name in TYPES]
        yield row(f"route of an unseen key, {count} queues", [f"{unseen:.1f} µs" for unseen, _ in costs])
        yield row(f"route of a key seen before, {count} queues", [f"{seen:.1f} µs" for _, seen in costs])


def row(what: str, cells: list[str]) -> str:
    return f"| {what} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m warren.plugins.comparison", description=__doc__).parse_args()
    for line in lines():
        print(line, flush=True)
