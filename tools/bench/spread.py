"""Many bindings over a slow link, and many links, half of them to an upstream that never answers."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.proxy import Proxy

from .client import LoadFailed
from .generator import Workers
from .memory import Demand
from .pairs import EXCHANGE, PACED, Pair, pairs
from .progress import MEASURING

ROUND_TRIP_S = 0.05
BINDINGS, BINDINGS_WITHIN_S = 10_000, 30.0
LINKS, START_WITHIN_S, STOP_WITHIN_S = 500, 30.0, 10.0
GIVE_UP_S = 120.0
LOOK_S = 0.2  # the time between two requests, because lists of all bindings or links are work for the broker
SILENT = "silent"
FLOW_S = 2.0  # the time after a measurement in which messages must arrive


def many_bindings(folder: Path) -> Iterator[tuple[str, Demand]]:
    """Measure the time until bindings are upstream, of a running and of a starting link. Raises LoadFailed."""
    with ExitStack() as stack:
        (pair,) = stack.enter_context(pairs(folder, alone=True))
        slow = _proxy(stack, pair)
        pair.feed_from(f"amqp://{slow.address}/{pair.up.broker.vhost}")
        stack.enter_context(pair.linked(PACED))
        slow.delay_s = ROUND_TRIP_S / 2
        workers = Workers(PACED, pair.up.broker, pair.down.broker)
        try:
            workers.wait_until_ready()
            workers.progress.phase = MEASURING
            took_s = _timed(lambda: _bind(pair), lambda: pair.runs(PACED, BINDINGS + 1))
            yield pair.name, Demand(f"{BINDINGS:,} bindings at 50 ms", took_s, BINDINGS_WITHIN_S, "s")
            workers.sleep(FLOW_S)
        except BaseException:
            with suppress(LoadFailed):  # the first failure is reported
                workers.stop()
            raise
        samples = workers.stop()
        yield pair.name, Demand("p99 of messages meanwhile", samples[int(len(samples) * 0.99)] / 1e6, 0, "ms")
        took_s = _timed(lambda: _break(pair, slow), lambda: pair.runs(PACED, BINDINGS + 1))
        yield pair.name, Demand(f"{BINDINGS:,} bindings, a link that starts", took_s, BINDINGS_WITHIN_S, "s")
        slow.delay_s = 0.0


def many_links(folder: Path) -> Iterator[tuple[str, Demand]]:
    """Measure the start and the stop of many links, also beside as many to an upstream that never answers."""
    with ExitStack() as stack:
        (pair,) = stack.enter_context(pairs(folder, alone=True))
        deaf = _proxy(stack, pair)
        deaf.silence()
        pair.unfederate("exchanges")
        control = pair.down.connect()
        for number in range(LINKS):
            control.declare_exchange(f"{EXCHANGE}.{number}", "topic", durable=False)
        control.close()
        yield from _starts_and_stops(pair, "")
        pair.feed_from(f"amqp://{deaf.address}/x", SILENT)
        yield from _starts_and_stops(pair, f" beside {LINKS} that hang")


def _starts_and_stops(pair: Pair, beside: str) -> Iterator[tuple[str, Demand]]:
    took_s = _timed(lambda: pair.federate("exchanges"), lambda: _run(pair))
    yield pair.name, Demand(f"{LINKS} links start{beside}", took_s, START_WITHIN_S, "s")
    took_s = _timed(lambda: pair.unfederate("exchanges"), pair.is_gone)
    yield pair.name, Demand(f"{LINKS} links stop{beside}", took_s, STOP_WITHIN_S, "s")


def _proxy(stack: ExitStack, pair: Pair) -> Proxy:
    loop = LoopThread()
    stack.callback(loop.close)
    proxy = Proxy(loop, ("127.0.0.1", pair.up.broker.port))
    stack.callback(proxy.close)
    return proxy


def _timed(do: Callable[[], object], done: Callable[[], bool]) -> float:
    """Return the seconds until something is done."""
    started_s = time.monotonic()
    do()
    while not done():
        if time.monotonic() - started_s > GIVE_UP_S:
            raise LoadFailed(f"not done after {GIVE_UP_S:.0f} s")
        time.sleep(LOOK_S)
    return time.monotonic() - started_s


def _break(pair: Pair, proxy: Proxy) -> None:
    proxy.blink()
    until(lambda: not pair.runs(PACED, BINDINGS + 1), "a link that has broken")


def _bind(pair: Pair) -> None:
    control = pair.down.connect()
    for number in range(BINDINGS):
        control.bind_queue(PACED.queue(0), EXCHANGE, f"many.{number}")
    control.close()


def _run(pair: Pair) -> bool:
    running = [row for row in pair.rows() if row["status"] == "running" and row["upstream"] != SILENT]
    return len(running) == LINKS
