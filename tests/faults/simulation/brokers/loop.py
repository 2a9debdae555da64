"""An event loop with virtual time: one for each simulated process, turned by the world.

What asyncio promises holds: callbacks run in the order of `call_soon`, and timers in the order of their times. What it
does not promise is drawn from the seed: which sources (connections, threads) are served in a turn and in which order,
the order of timers within a millisecond, how long a turn takes, and which process has the next turn.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from tests.faults.simulation.disk import Stopped

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.network import Network

WALL_S = 1_700_000_000.0  # at the beginning
TURN_S = 0.0002  # the longest turn
TIMER_S = 0.001  # timers are late by less
CALL_S = 0.0005  # the longest call of a function in another thread
SPAWN_S = 0.05  # the longest start of a process
BURIAL_TURNS, CANCEL_TURNS = 1000, 20  # the most turns until the tasks of a process end, and between cancellations


class VirtualTime:
    """The time of a world, and the processor time that `time` shows to its processes.

    now_s   monotonic time
    wall_s  the error of the wall clock of the process that has its turn
    """

    def __init__(self, random: Random) -> None:
        self.now_s = 1000.0
        self.wall_s = 0.0
        self.random = random
        self._used_s = 0.0

    def wall(self) -> float:
        return WALL_S + self.now_s + self.wall_s

    def used(self) -> float:
        """Return the processor time; each look at it finds that some was used, seldom much."""
        self._used_s += 0.001 * self.random.random() ** 4
        return self._used_s

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Context in which the module `time` has this time, and the module `random` the world's seed."""
        shown: dict[str, Callable[..., Any]] = {
            "time": self.wall,
            "monotonic": lambda: self.now_s,
            "monotonic_ns": lambda: int(self.now_s * 1e9),
            "clock_gettime": lambda clock: self.now_s,
            "perf_counter": self.used,
            "thread_time": self.used,
        }
        before = {name: getattr(time, name) for name in shown}
        state = random.getstate()
        random.seed(self.random.getrandbits(64))
        try:
            for name, function in shown.items():
                setattr(time, name, function)
            yield
        finally:
            for name, function in before.items():
                setattr(time, name, function)
            random.setstate(state)


class Source:
    """A source of work for a loop: the end of a connection, or a thread. `due_s` is when there is some, or inf."""

    @property
    def due_s(self) -> float:
        raise NotImplementedError

    def run(self) -> None:
        """Do the work, unless there is none any more."""
        raise NotImplementedError


class Executor(Source):
    """The calls that a loop has passed to other threads. They are made in order, as those of one worker."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._calls: list[tuple[float, asyncio.Future[Any], Callable[[], Any]]] = []

    @property
    def due_s(self) -> float:
        return self._calls[0][0] if self._calls else inf

    def add(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._calls.append((self._loop.now_s + CALL_S * self._loop.random.random(), future, call))
        return future

    def run(self) -> None:
        if self.due_s > self._loop.now_s:
            return
        _, future, call = self._calls.pop(0)
        if future.done():
            return
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of one process. `turn` is one turn of it.

    dead     the process has ended: it writes and sends nothing any more
    errors   of callbacks, which make the simulation fail
    next_s   `due_s` as the world has seen it last; `changed`: it may be another one now
    asleep_s, asleep_from_s  the process is stopped between the two, or was
    former_s  since when another process owns its store
    """

    def __init__(self, name: str, time: VirtualTime, random: Random, network: Network) -> None:
        super().__init__()
        self.name = name
        self.random = random
        self.dead = False
        self.former_s = inf
        self.next_s, self.changed = inf, True
        self.wall_s = self.asleep_s = self.asleep_from_s = 0.0
        self.errors: list[BaseException] = []
        self.executor = Executor(self)
        self.sources: list[Source] = [self.executor]
        self.spawn: Callable[[Any], asyncio.SubprocessTransport] | None = None  # starts a process
        self._virtual = time
        self._ahead_s = 0.0  # after the end of the process
        self._network = network
        self._context = Context()  # of all sources
        self.set_exception_handler(SimulatedLoop._failed)

    def __repr__(self) -> str:
        return f"<loop of {self.name}>"

    @property
    def now_s(self) -> float:
        return self._virtual.now_s + self._ahead_s

    def time(self) -> float:
        return self.now_s

    @property
    def due_s(self) -> float:
        """The time of the next turn that has something to do."""
        if self._ready:
            return max(self.now_s, self.asleep_s)
        scheduled = self._scheduled
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)
        due_s = scheduled[0].when() if scheduled else inf
        for source in self.sources:
            source_s = source.due_s
            if source_s < due_s:
                due_s = source_s
        return max(due_s, self.asleep_s)

    def stand_still(self, seconds: float) -> None:
        """Stop the process for a while."""
        self.asleep_from_s, self.asleep_s = self.now_s, self.now_s + seconds

    def turn(self) -> None:
        self.run_now(self._run_once)

    def _run_once(self) -> None:
        """Run what is ready, some of the sources that are due, and the timers that are, in the order of asyncio."""
        now_s, ready, scheduled = self.now_s, self._ready, self._scheduled
        due = [source for source in self.sources if source.due_s <= now_s]
        if len(due) > 1:
            due = self.random.sample(due, self.random.randint(1, len(due)))
        for source in due:
            ready.append(asyncio.Handle(source.run, (), self, self._context))
        while scheduled and scheduled[0]._when <= now_s:
            ready.append(heapq.heappop(scheduled))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def run_now(self, function: Callable[[], object]) -> None:
        """Call a function as a callback of this loop."""
        self._virtual.wall_s = self.wall_s
        asyncio._set_running_loop(self)
        try:
            function()
        finally:
            asyncio._set_running_loop(None)

    def bury(self) -> None:
        """End all tasks and close the loop, after the process has ended. Nothing of it is seen outside."""
        self.dead = True
        self.random = Random(0)
        self._virtual.random, before = Random(0), self._virtual.random
        state = random.getstate()
        for turn in range(BURIAL_TURNS):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks if turn % CANCEL_TURNS == 0 else ():
                task.cancel()
            if self.due_s < inf:
                self._ahead_s += max(0.0, self.due_s - self.now_s)
            with suppress(SystemExit):  # it has exited already
                self.turn()
        else:
            raise AssertionError(f"tasks of {self} do not end: {asyncio.all_tasks(self)}")
        self.close()
        random.setstate(state)
        self._virtual.random = before

    @staticmethod
    def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        assert isinstance(loop, SimulatedLoop)
        error = context.get("exception") or AssertionError(str(context))
        if not loop.dead and not isinstance(error, Stopped):
            loop.errors.append(error)

    # What the base class calls

    def _write_to_self(self) -> None: ...

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return super().call_at(when + TIMER_S * self.random.random(), callback, *args, context=context)

    # The system

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> Any:
        return self.executor.add(lambda: function(*args))

    async def pause(self, seconds: float) -> None:
        paused = self.create_future()
        timer = self.call_later(seconds, lambda: paused.done() or paused.set_result(None))
        try:
            await paused
        finally:
            timer.cancel()

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await self._network.connect_socket(self, sock, address[0])

    async def create_connection(self, protocol_factory: Any, *args: Any, sock: Any = None, **options: Any) -> Any:
        end = self._network.end_of(sock)
        protocol = protocol_factory()
        end.begin(protocol)
        return end, protocol

    async def subprocess_exec(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        assert self.spawn is not None
        await self.pause(SPAWN_S * self.random.random())
        protocol = protocol_factory()
        return self.spawn(protocol), protocol
