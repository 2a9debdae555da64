"""Two ways to grow: shards over several Warrens, and a link over a slow network."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread
from urllib.parse import quote

from tests.support.federated_broker import FederatedBroker
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.proxy import Proxy

from .generator import Result, declare, measure
from .loads import Load
from .pairs import FEDERATED, Place, carried, pairs

ROUND_TRIPS_MS = (0, 20, 80, 160)
PREFETCHES = (1_000, 10_000)
WITHIN_S = 60.0
KEYS = 20_000
EXCHANGE, VHOST, SHARD = "bench.shards", "shards", "bench.shard"
SHARDS = (1, 2)  # brokers
HASHES = ("x-consistent-hash", "x-modulus-hash")


def far(folder: Path, seconds: float, warmup_s: float) -> Iterator[tuple[str, Result]]:
    """Measure the rate of a link by the round trip to its upstream and its prefetch. Raises LoadFailed."""
    with ExitStack() as stack:
        (pair,) = stack.enter_context(pairs(folder, alone=True))
        loop = LoopThread()
        stack.callback(loop.close)
        slow = Proxy(loop, ("127.0.0.1", pair.up.broker.port))
        stack.callback(slow.close)
        for round_trip_ms in ROUND_TRIPS_MS:
            slow.delay_s = round_trip_ms / 2000
            for prefetch in PREFETCHES:
                value = {"uri": f"amqp://{slow.address}/{pair.up.broker.vhost}", "prefetch-count": prefetch}
                pair.down.set("parameters/federation-upstream", "up", {"value": value})
                yield f"{round_trip_ms} ms, prefetch {prefetch:,}", carried(FEDERATED, pair, seconds, warmup_s)


def shards(folder: Path, seconds: float, warmup_s: float) -> Iterator[tuple[str, Result]]:
    """Measure one Warren with a hash exchange and two queues, and several Warrens with a queue each."""
    for kind in HASHES:
        load = Load("C", kind, "two queues by hash", exchange=EXCHANGE, exchange_type=kind, keys=KEYS)
        for count in SHARDS:
            names = [f"s{number}" for number in range(count)]
            with ExitStack() as stack:
                warrens = {
                    name: stack.enter_context(FederatedBroker(folder / f"{kind}-{count}-{name}", name))
                    for name in names
                }
                places = {name: Place.of(warren, name, VHOST) for name, warren in warrens.items()}
                if len(places) > 1:
                    _shard(load, places)
                    results = _together([(replace(load, letter=name), place) for name, place in places.items()],
                                        seconds, warmup_s)  # fmt: skip
                else:
                    (place,) = places.values()
                    both = replace(load, queues=2, publishers=2, consumers=2)
                    control = place.connect()
                    control.declare_exchange(EXCHANGE, kind, durable=False)
                    declare(replace(both, exchange=""), control)
                    for index in range(2):
                        control.bind_queue(both.queue(index), EXCHANGE, "1")
                    results = [measure(both, place.broker, seconds, warmup_s)]
            yield f"{kind}, {count}", _sum(results)


def _shard(load: Load, places: dict[str, Place]) -> None:
    """Make each broker the shard of its name: it takes the messages of the exchange with that name at the others."""
    for name, place in places.items():
        control = place.connect()
        mine = replace(load, letter=name)
        control.declare_exchange(load.exchange, load.exchange_type, durable=False)
        declare(replace(mine, exchange=""), control)
        for shard in places:
            control.declare_exchange(f"{SHARD}.{shard}", "fanout", durable=False)
            path = f"/bindings/{VHOST}/e/{load.exchange}/e/{SHARD}.{shard}"
            place.peer.ask("POST", path, {"routing_key": "1", "arguments": {}})
        control.bind_queue(mine.queue(0), f"{SHARD}.{name}", "")
        for other, its in places.items():
            if other != name:
                place.set(
                    "parameters/federation-upstream", other, {"value": {"uri": its.uri, "prefetch-count": 10_000}}
                )
        policy = {
            "pattern": f"^{SHARD}.{name}$",
            "apply-to": "exchanges",
            "definition": {"federation-upstream-set": "all"},
        }
        place.set("policies", "shard", policy)
        control.close()
    for name in places:
        others = [one for other, one in places.items() if other != name]
        until(lambda name=name, others=others: all(_reached(one, name) for one in others), "the links", WITHIN_S)


def _reached(place: Place, shard: str) -> bool:
    """Return whether a downstream has bound its queue to the exchange of its shard here."""
    path = f"/exchanges/{VHOST}/{quote(f'{SHARD}.{shard}', '')}/bindings/source"
    return bool(place.peer.ask("GET", path))


def _together(loads: list[tuple[Load, Place]], seconds: float, warmup_s: float) -> list[Result]:
    results: list[Result] = []
    threads = [
        Thread(
            target=lambda load=load, place=place: results.append(measure(load, place.broker, seconds, warmup_s)),
            daemon=True,
        )
        for load, place in loads
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _sum(results: list[Result]) -> Result:
    """Return the sum of the brokers' rates, and the messages for each CPU second of any of them."""
    received = sum(result.received_per_s for result in results)
    cpu_s = sum(result.received_per_s / result.per_cpu_s for result in results if result.per_cpu_s)
    return Result(
        sum(result.published_per_s for result in results), received, per_cpu_s=received / cpu_s if cpu_s else None
    )
