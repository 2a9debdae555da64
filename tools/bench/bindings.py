"""The cost of many bindings of one topic exchange: making them one by one, and publishing past them."""

import time
from collections.abc import Iterator
from dataclasses import replace

from .client import Connection
from .generator import measure
from .loads import LOADS, Load
from .memory import Demand
from .process import Broker

FEW, MANY = 100, 100_000
WARMED = 20  # bindings that are made before the measurement
# The kinds of keys in turn: literal, and with wildcards before or around it.
PATTERNS = ("{queue}.{number:05}", "*.*.*.{number:05}", "#.{number:05}", "#.#.#.{number:05}.#")
# More keys than a broker caches routes for, all of them bound: `{queue}.#` is one of the few bindings.
KEYS = 40_000
LOAD = replace(next(load for load in LOADS if load.letter == "K"), letter="V", name="bindings", keys=KEYS)


def pattern(load: Load, number: int) -> str:
    """Return the binding key of a number."""
    kinds = len(PATTERNS)
    return PATTERNS[number % kinds].format(queue=load.queue(0), number=number // kinds)


def bindings(broker: Broker, seconds: float, warmup_s: float, durable: bool, many: int = MANY) -> Iterator[Demand]:
    """Measure sequential binds a second, and the cost of a publish with many bindings relative to few.

    Raises LoadFailed.
    """
    load = replace(LOAD, durable=durable)
    queue, what = load.queue(0), "durable" if durable else "transient"
    control = Connection(broker.port)
    try:
        control.declare_exchange(load.exchange, load.exchange_type, durable)
        control.declare_queue(queue, durable=durable)
        control.bind_queue(queue, load.exchange, f"{queue}.#")
        for number in range(FEW):
            control.bind_queue(queue, load.exchange, pattern(load, number))
        few = measure(load, broker, seconds, warmup_s)
        control.purge_queue(queue)
        for number in range(FEW, FEW + WARMED):
            control.bind_queue(queue, load.exchange, pattern(load, number))
        started_s = time.monotonic()
        for number in range(FEW + WARMED, many):
            control.bind_queue(queue, load.exchange, pattern(load, number))
        took_s = time.monotonic() - started_s
        yield Demand(f"{what} bindings to {many:,}", (many - FEW - WARMED) / took_s, 1000, "/s", at_least=True)
        much = measure(load, broker, seconds, warmup_s)
        yield Demand(f"{what}, published with {FEW}", few.received_per_s, 0, "/s", at_least=True)
        cost = few.received_per_s / (much.received_per_s or 1)
        yield Demand(f"{what}, cost with {many:,} to that", cost, 3, "times")
        control.delete_queue(queue)
        control.delete_exchange(load.exchange)
        control.close()
    finally:
        control.socket.close()
