"""The load generator: runs a load on one broker, or on two with a link, with a process for each client."""

from __future__ import annotations

import multiprocessing
import time
from argparse import ArgumentParser
from array import array
from collections.abc import MutableSequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess

from .client import Connection, LoadFailed
from .consuming import consume
from .loads import Load
from .process import Broker, cpu_s, rss_bytes
from .progress import MEASURING, RUNNING, STOPPED, Progress
from .publishing import publish

READY_WITHIN_S = 60.0
RESULT_WITHIN_S = 60.0
SETTLE_S = 0.2  # the time for a broker to notice the end of publishers, before their queues are deleted


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run of a load. A figure that was not measured is None."""

    published_per_s: float
    received_per_s: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    per_cpu_s: float | None = None  # messages of the compared figure for each CPU second of the broker
    rss_bytes: int | None = None  # at the end of the window, of the first broker


class Workers:
    """The publishers and consumers of one load, each a process. They publish to `to`, and consume from `of`."""

    def __init__(self, load: Load, to: Broker, of: Broker) -> None:
        self.publishers = range(load.publishers)
        self.consumers = range(load.publishers, load.publishers + load.consumers)
        spawn = multiprocessing.get_context("spawn")
        words = spawn.RawArray("Q", Progress.words_for(load.publishers + load.consumers))
        self.progress = Progress(words)
        self._processes: list[SpawnProcess] = []
        self._pipes: list[Pipe] = []
        for worker in (*self.consumers, *self.publishers):
            mine, its = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_work, args=(load, to, of, worker, words, its), daemon=True)
            process.start()
            its.close()
            self._processes.append(process)
            self._pipes.append(mine)

    def wait_until_ready(self) -> None:
        give_up_s = time.monotonic() + READY_WITHIN_S
        while not self.progress.all_ready:
            self.check()
            if time.monotonic() > give_up_s:
                raise LoadFailed("the workers did not get ready")
            time.sleep(0.005)

    def check(self) -> None:
        """Raise LoadFailed if a worker ended early."""
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            if pipe.poll() or not process.is_alive():
                raise LoadFailed(_received(pipe)[1] or "a worker ended early")

    def sleep(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.25))
            self.check()

    def wait_for(self, workers: range, count: int) -> None:
        """Wait until these workers have counted so many messages. Raises LoadFailed."""
        give_up_s = time.monotonic() + RESULT_WITHIN_S
        while self.progress.counted(workers) < count:
            self.check()
            if time.monotonic() > give_up_s:
                raise LoadFailed("too few messages")
            time.sleep(0.005)

    def stop(self) -> array[int]:
        """Stop the workers, and return the sorted latencies in nanoseconds. Raises LoadFailed if a worker failed."""
        self.progress.phase = STOPPED
        samples: array[int] = array("Q")
        failure = ""
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            octets, error = _received(pipe) if pipe.poll(RESULT_WITHIN_S) else (b"", "a worker did not stop")
            samples.frombytes(octets)
            failure = failure or error
            pipe.close()
            process.join(1)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        if failure:
            raise LoadFailed(failure)
        return array("Q", sorted(samples))


def _received(pipe: Pipe) -> tuple[bytes, str]:
    try:
        samples, error = pipe.recv()
    except EOFError:
        return b"", "a worker ended early"
    return samples, error


def _work(load: Load, to: Broker, of: Broker, worker: int, words: MutableSequence[int], pipe: Pipe) -> None:
    """The main function of a worker process, which sends (samples, error)."""
    progress, samples, error = Progress(words), b"", ""
    try:
        if worker < load.publishers:
            publish(load, to, worker, worker, progress)
        else:
            samples = consume(load, of, worker - load.publishers, worker, progress)
    except (LoadFailed, OSError) as reason:
        error = f"{type(reason).__name__}: {reason}"
    pipe.send((samples, error))
    pipe.close()


def run(load: Load, broker: Broker, seconds: float, warmup_s: float, fewest: int = 0) -> Result:
    """Run a load for a while after a warm-up, and delete its queues and its exchange. Raises LoadFailed.

    The window lasts until `fewest` messages were published, and received if the load has consumers.
    """
    control = Connection(broker.port, broker.vhost)
    try:
        declare(load, control)
        result = measure(load, broker, seconds, warmup_s, fewest=fewest)
        time.sleep(SETTLE_S)
        drop(load, control)
        control.close()
    finally:
        control.socket.close()
    return result


def measure(
    load: Load, broker: Broker, seconds: float, warmup_s: float, downstream: Broker | None = None, fewest: int = 0
) -> Result:
    """Run a load whose queues exist, and consume at `downstream` if given. Raises LoadFailed."""
    workers = Workers(load, broker, downstream or broker)
    pids = {one.pid for one in (broker, downstream or broker) if one.pid}
    try:
        workers.wait_until_ready()
        workers.progress.phase = RUNNING
        workers.sleep(warmup_s)
        rates = _window(load, broker, pids, workers, seconds, fewest)
    except BaseException:
        with suppress(LoadFailed):  # the first failure is reported
            workers.stop()
        raise
    samples = workers.stop()
    p50_ms, p99_ms, p999_ms = (
        samples[int(len(samples) * share)] / 1e6 if samples else None for share in (0.5, 0.99, 0.999)
    )
    return replace(rates, p50_ms=p50_ms, p99_ms=p99_ms, p999_ms=p999_ms)


def _window(load: Load, broker: Broker, pids: set[int], workers: Workers, seconds: float, fewest: int) -> Result:
    """Return the rates of the window, from counts and CPU times at both ends."""
    progress = workers.progress
    progress.phase = MEASURING
    cpu_before_s = sum(map(cpu_s, pids))
    published, received = progress.counted(workers.publishers), progress.counted(workers.consumers)
    started_s = time.monotonic()
    workers.sleep(seconds)
    workers.wait_for(workers.publishers, published + fewest)
    if load.consumers:
        workers.wait_for(workers.consumers, received + fewest)
    took_s = time.monotonic() - started_s
    published = progress.counted(workers.publishers) - published
    received = progress.counted(workers.consumers) - received
    cpu_took_s = sum(map(cpu_s, pids)) - cpu_before_s
    progress.phase = RUNNING
    return Result(
        published / took_s,
        received / took_s,
        per_cpu_s=(received if load.consumers else published) / cpu_took_s if cpu_took_s else None,
        rss_bytes=rss_bytes(broker.pid) if broker.pid else None,
    )


def add_options(parser: ArgumentParser) -> None:
    """Add the options of runs to a command line."""
    parser.add_argument("--seconds", type=float, default=4.0, help="measured in each run (default 4)")
    parser.add_argument("--warmup", type=float, default=1.5, metavar="SECONDS", help="before it (default 1.5)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each load on each broker (default 3)")
    parser.add_argument("--only", default="", metavar="LETTERS", help="these loads only: --only AE")


def declare(load: Load, control: Connection) -> None:
    if load.dead_letters:
        control.declare_queue(load.dead_queue, durable=load.durable)
        control.purge_queue(load.dead_queue)
    if load.exchange:
        control.declare_exchange(load.exchange, load.exchange_type, load.durable)
    for index in range(load.queues):
        queue = load.queue(index)
        control.declare_queue(queue, durable=load.durable, arguments=load.queue_arguments)
        control.purge_queue(queue)
        if load.exchange:
            control.bind_queue(queue, load.exchange, "" if load.exchange_type == "fanout" else f"{queue}.#")


def drop(load: Load, control: Connection) -> None:
    for index in range(load.queues):
        control.delete_queue(load.queue(index))
    if load.dead_letters:
        control.delete_queue(load.dead_queue)
    if load.exchange:
        control.delete_exchange(load.exchange)
