"""Demands 7 to 9: rates and latencies beside another broker, the recovery of a long backlog, and the size on disk."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tests.support.polling import WITHIN_S
from tests.support.postgresql import Cluster, replicated
from tools.bench.client import Connection
from tools.bench.confirms import confirms
from tools.bench.generator import declare, run
from tools.bench.loads import LOADS
from tools.bench.process import Broker, cpu_s
from tools.bench.publishing import BATCH, Confirms, batch_of

from .outcome import Outcome
from .site import site

QUORUM = next(load for load in LOADS if load.letter == "U")  # load D with x-queue-type quorum
RATIO = 3.0
CONFIRM_RATE_PER_S = 500
RECOVERED_WITHIN_S = 20.0
WINDOW = 10_000  # publishes without a confirm, while a backlog is made
SAMPLE_S = 10.0
BOUND = 1.5  # of the largest size in the first third of a run, for the rest of it
MIB = 1 << 20
CATALOG = "'pg_catalog'"
SIZE = (
    "SELECT pg_database_size(current_database()),"
    " (SELECT count(*) FROM pg_class WHERE relname ~ '^segment_[0-9]+$' AND relkind = 'r'),"
    f" (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = {CATALOG}::regnamespace"
    " AND relkind = 'r'),"
    f" (SELECT sum(n_dead_tup)::bigint FROM pg_stat_all_tables WHERE schemaname = {CATALOG}),"
    " (SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables)"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The size of a database: bytes of all and of the system catalogs, tables of segments, and dead rows."""

    database_bytes: int
    segments: int
    catalog_bytes: int
    dead_catalog_rows: int
    dead_rows: int


@contextmanager
def replicated_broker() -> Iterator[Broker]:
    """Context with a broker on PostgreSQL with one synchronous standby server."""
    with replicated() as (primary, standby), site(primary.url(standby), standby=False) as here:
        broker = here.active
        yield Broker("warren", broker.port, broker.process.pid)


def rate(rounds: int, seconds: float, peer: Broker | None) -> Outcome:
    """Demand 7."""
    received: dict[str, list[float]] = {}
    with replicated_broker() as broker:
        brokers = [broker, peer] if peer is not None else [broker]
        for _ in range(rounds):
            for one in brokers:
                result = run(QUORUM, one, seconds, min(seconds, 1.0), fewest=1)
                received.setdefault(one.name, []).append(result.received_per_s)
    medians = {name: median(rates) for name, rates in received.items()}
    text = ", ".join(f"{name} {value:,.0f}/s" for name, value in medians.items())
    text = f"received, medians of {rounds} windows of {seconds:g} s in turn: {text}"
    if peer is None:
        return Outcome(None, f"{text}; no --peer to compare with")
    ratio = medians[broker.name] / medians[peer.name]
    return Outcome(ratio >= RATIO, f"{text}; {ratio:.2f} times")


def latency(rounds: int, seconds: float, peer: Broker | None) -> Outcome:
    """Demand 8."""
    p50_ms: dict[str, list[float]] = {}
    p99_ms: dict[str, list[float]] = {}
    with replicated_broker() as broker:
        brokers = [broker, peer] if peer is not None else [broker]
        for _ in range(rounds):
            for one in brokers:
                figures = confirms(one, CONFIRM_RATE_PER_S, "quorum", seconds, min(seconds, 1.0))
                p50_ms.setdefault(one.name, []).append(figures.p50_ms)
                p99_ms.setdefault(one.name, []).append(figures.p99_ms)
    text = ", ".join(f"{name} {median(p50_ms[name]):.1f} and {median(p99_ms[name]):.1f} ms" for name in p99_ms)
    text = f"p50 and p99, medians of {rounds} windows of {seconds:g} s in turn: {text}"
    if peer is None:
        return Outcome(None, f"{text}; no --peer to compare with")
    return Outcome(median(p99_ms[broker.name]) <= median(p99_ms[peer.name]), text)


def recovery(messages: int) -> Outcome:
    """Demand 9: the takeover of a long backlog."""
    with replicated() as (primary, standby), site(primary.url(standby)) as here:
        fill(Broker("warren", here.active.port), messages)
        before_s = cpu_s(here.standby.process.pid)
        here.active.kill()
        took_s, count = here.served_s(time.monotonic(), QUORUM.queue(0))
        spent_s = cpu_s(here.standby.process.pid) - before_s
    return Outcome(
        count == messages and took_s <= RECOVERED_WITHIN_S,
        f"a standby served {count:,} messages of {QUORUM.body_bytes} bytes {took_s:.1f} s after the kill of the active"
        f" broker, with {spent_s:.1f} s of its processor time",
    )


def fill(broker: Broker, messages: int) -> None:
    """Publish so many messages of load D, and wait until they are confirmed. Raises LoadFailed."""
    connection = Connection(broker.port)
    declare(QUORUM, connection)
    connection.select_confirms()
    confirmed = Confirms(connection.socket)
    batch = batch_of(QUORUM, 0, connection.frame_max)
    for first in range(0, messages, BATCH):
        connection.socket.sendall(batch.build(first, min(BATCH, messages - first)))
        while first - confirmed.count > WINDOW:
            confirmed.take(wait=True)
    while confirmed.count < messages:
        confirmed.take(wait=True)
    connection.close()
    connection.socket.close()


def size(minutes: float, rate_per_s: float = 0.0) -> Outcome:
    """Demand 9: the size of the database while load D runs, with this rate at most unless it is 0."""
    load = replace(QUORUM, rate_per_s=rate_per_s)
    samples: list[Sample] = []
    stopped = threading.Event()
    with replicated() as (primary, standby), site(primary.url(standby), standby=False) as here:
        thread = threading.Thread(target=sample, args=(primary, samples, stopped), daemon=True)
        thread.start()
        try:
            result = run(load, Broker("warren", here.active.port), minutes * 60, 1.0)
        finally:
            stopped.set()
            thread.join(WITHIN_S)
    third = len(samples) // 3
    first, last, largest = samples[: third or 1], samples[third:], partial(most, samples)
    early, late = most(first, "database_bytes"), most(last, "database_bytes")
    return Outcome(
        late <= BOUND * early,
        f"{minutes:g} min of D at {result.received_per_s:,.0f}/s: the database had at most {early / MIB:.0f} MiB in the"
        f" first third, {late / MIB:.0f} MiB after it, {samples[-1].database_bytes / MIB:.0f} MiB at the end, in at"
        f" most {largest('segments')} tables of segments and {largest('dead_rows'):,} dead rows; the system catalogs"
        f" had {samples[0].catalog_bytes / MIB:.1f} MiB at the start, at most"
        f" {most(first, 'catalog_bytes') / MIB:.1f} MiB in the first third,"
        f" {most(last, 'catalog_bytes') / MIB:.1f} MiB after it, and"
        f" {largest('dead_catalog_rows'):,} dead rows",
    )


def most(samples: list[Sample], field: str) -> int:
    return max(int(getattr(one, field)) for one in samples)


def sample(server: Cluster, samples: list[Sample], stopped: threading.Event) -> None:
    while True:
        samples.append(Sample(*(int(str(value or 0)) for value in server.execute(SIZE)[0])))
        if stopped.wait(SAMPLE_S):
            return
