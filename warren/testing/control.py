"""The controls of a broker for tests: lines of JSON on its standard input, each answered by one on standard output.

`{"do": "delay", "ms": 100}` is answered by `{"result": null}` or `{"error": "..."}`. `Broker` describes the controls.
"""

import asyncio
import inspect
import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast
from urllib.parse import quote

from warren.broker.core.queues.queue_settings import NONE
from warren.broker.core.queues.x_death import EXPIRED
from warren.broker.core.telemetry.event_exchange import INTERNAL
from warren.broker.core.telemetry.resource_alarms import DISK
from warren.broker.plugin import AMQPError, Host, OperatorError, Queue, Service
from warren.broker.session.connection import Connection

from .clock import MovableClock
from .slow_network import SlowTransport, matches
from .slow_socket import SlowSocket

LINE_BYTES = 1 << 16
TOO_LONG = b"a line that is too long\n"
NO_SPACE_BYTES = 1 << 63  # a limit of free space that no disk has
# Clients get 0.2 s to answer connection.close: one that shares a thread with the tests cannot.
STOP_LOOKS, STOP_LOOK_S = 40, 0.005
ALARM_LOOKS, ALARM_LOOK_S = 2000, 0.001  # until the alarm of the disk has changed
TURNS = 1000  # of the loop, in which dead letters are routed at the latest
EVERYTHING = ".*"


class ControlService(Service):
    """The service that reports the addresses, and then serves the controls until the input ends."""

    def __init__(self, parent: int | None) -> None:
        """`parent` is a process; the broker ends with it."""
        self._parent = parent
        self._watched: int | None = None  # its descriptor
        self._memory_bytes = self._disk_bytes = 0  # the limits without an alarm
        self.abandoned = False  # the broker ended with its input or its parent, which have not stopped it
        self._stopping = False
        controls = (
            *(self.add_vhost, self.delete_vhost, self.cluster_name, self.drop_connections, self.delay, self.refuse),
            *(self.accept, self.partition, self.heal, self.block, self.unblock, self.fill_disk, self.free_disk),
            *(self.expire_now, self.advance, self.reset, self.stop_broker, self.shut_down),
        )
        self._controls: dict[str, Callable[..., Any]] = {control.__name__: control for control in controls}

    async def start(self, host: Host) -> None:
        """Raises OSError, ValueError if the input is neither a pipe nor a terminal."""
        if not (sys.stdin.isatty() or is_pipe(os.fstat(sys.stdin.fileno()).st_mode)):
            raise ValueError("standard input is neither a pipe nor a terminal; the broker would end with it")
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._memory_bytes = host.resources.memory_limit_bytes
        self._disk_bytes = host.resources.disk_free_limit_bytes
        if self._parent is not None and hasattr(os, "pidfd_open"):
            self._watch(self._parent)
        self._loop.add_signal_handler(signal.SIGTERM, self._terminate)
        reader = asyncio.StreamReader(LINE_BYTES)
        await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        write_line(self._facts())
        host.supervisor.run("control", self._serve(reader))

    async def stop(self) -> None:
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = None

    def _watch(self, parent: int) -> None:
        """End the broker with this process: its other children may keep the pipe open."""
        try:
            self._watched = os.pidfd_open(parent)
        except ProcessLookupError:
            self._loop.call_soon(self._end)
        except OSError:
            return  # of a system that cannot; the end of the pipe remains
        else:
            self._loop.add_reader(self._watched, self._end)

    def _facts(self) -> dict[str, object]:
        """Return the addresses, as `Broker` has them."""
        config = self._host.config
        amqp, http = self._address("amqp"), self._address("http")
        user, password = config.default_user, config.initial_password or ""
        facts: dict[str, object] = {"host": "", "port": 0, "http_url": "", "url": ""}
        if amqp is not None:
            login = f"{quote(user, safe='')}:{quote(password, safe='')}"
            facts |= {"host": amqp[0], "port": amqp[1], "url": f"amqp://{login}@{amqp[0]}:{amqp[1]}/"}
        if http is not None:
            facts["http_url"] = f"http://{http[0]}:{http[1]}"
        return {**facts, "user": user, "password": password, "pid": os.getpid()}

    def _address(self, protocol: str) -> tuple[str, int] | None:
        return next(((one.host, one.port) for one in self._host.listening() if one.protocol == protocol), None)

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        """Serve one control after the other. The end of the input, or of who reads the output, ends the broker."""
        try:
            while line := await self._read_line(reader):
                await asyncio.sleep(0)  # a SIGTERM from before the line is handled before it
                if self._stopping:
                    break  # no answer: the end of the output is one
                write_line(await self._answer(line))
            self._end()
        except OSError:
            self._end()
            raise
        finally:
            self.stop_broker()

    async def _read_line(self, reader: asyncio.StreamReader) -> bytes:
        """Return the next line; one that is too long is dropped and no control. Empty at the end of the input."""
        try:
            return await reader.readline()
        except ValueError:
            return TOO_LONG

    async def _answer(self, line: bytes) -> dict[str, object]:
        """Call a control and return its answer, which has the `id` of the request if that has one."""
        answer: dict[str, object] = {}
        try:
            arguments = json.loads(line)
            control = self._controls[arguments.pop("do")]
            if "id" in arguments:
                answer["id"] = arguments.pop("id")
            result = control(**arguments)
            answer["result"] = await result if inspect.isawaitable(result) else result
        except (OperatorError, AMQPError) as error:
            answer["error"] = str(error)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            answer["error"] = f"not a control: {line.decode(errors='replace').strip()} ({error})"
        return answer

    # Virtual hosts

    def add_vhost(self, name: str) -> None:
        """Add a virtual host, unless there is one of this name."""
        if name in self._host.node.vhosts:
            return
        with self._host.acting(INTERNAL):
            self._host.node.add_vhost(name)
            self._host.node.users.set_permission(self._host.config.default_user, name, *[EVERYTHING] * 3)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host, unless the test has done so."""
        if name in self._host.node.vhosts:
            with self._host.acting(INTERNAL):
                self._host.node.delete_vhost(name)

    def cluster_name(self) -> str:
        """Return the name by which links of this broker introduce themselves."""
        return self._host.node.cluster_name

    # Faults

    def drop_connections(self, pattern: str = "*", reason: str = "") -> int:
        chosen = [one for one in self._host.connections() if is_open(one) and matches(one, pattern)]
        if reason:
            return self._host.close_connections(chosen.__contains__, reason)
        cut(chosen)
        return len(chosen)

    def delay(self, ms: float) -> None:
        SlowSocket.set_latency(max(ms, 0) / 1000)

    def refuse(self) -> None:
        self._host.control.suspend_listeners()

    async def accept(self) -> None:
        if not await self._host.control.resume_listeners():
            raise OperatorError("the broker cannot listen again; its log has the reason")

    def partition(self, pattern: str = "*") -> None:
        SlowTransport.partitions.add(pattern)
        for connection in self._host.connections():
            if isinstance(connection.transport, SlowTransport):
                connection.transport.join_partitions()

    def heal(self, pattern: str | None = None) -> None:
        """End this partition, or all of them without a pattern."""
        for partition in list(SlowTransport.partitions) if pattern is None else [pattern]:
            SlowTransport.partitions.discard(partition)
            SlowSocket.heal(partition)

    def block(self) -> None:
        self._host.resources.set_vm_memory_high_watermark(0)

    def unblock(self) -> None:
        self._host.resources.set_vm_memory_high_watermark(self._memory_bytes)

    async def fill_disk(self) -> None:
        await self._limit_disk(NO_SPACE_BYTES, True)

    async def free_disk(self) -> None:
        await self._limit_disk(self._disk_bytes, False)

    async def _limit_disk(self, limit_bytes: int, full: bool) -> None:
        """Set the limit of free space, and wait for the alarm: while a batch is written it is checked only after it."""
        self._host.resources.set_disk_free_limit(limit_bytes)
        for _ in range(ALARM_LOOKS):
            if (DISK in self._host.node.alarms.on()) == full:
                break
            await asyncio.sleep(ALARM_LOOK_S)

    async def expire_now(self, queue: str, vhost: str = "/") -> int:
        with self._host.acting(INTERNAL):
            found = self._queue(vhost, queue)
            count = 0
            while messages := found.ready_messages.drop_excess(0, NONE, sys.maxsize)[0]:
                count += len(messages)
                found.expired += len(messages)
                found.dead_letter_or_drop(messages, EXPIRED)
        for _ in range(TURNS):
            if not len(found.outbox):
                break
            await asyncio.sleep(0)
        return count

    async def advance(self, ms: float) -> None:
        await cast(MovableClock, self._host.node.clock).advance(ms)

    async def reset(self) -> None:
        self.delay(0)
        self.heal()
        self.unblock()
        await self.free_disk()
        await self.accept()
        cast(MovableClock, self._host.node.clock).reset_timestamps()

    async def shut_down(self) -> None:
        """End the broker as an operator does: clients get connection.close, and some time to answer it."""
        self._host.control.suspend_listeners()
        self._host.close_connections(is_open, "broker forced connection closure with reason 'shutdown'")
        for _ in range(STOP_LOOKS):
            if not any(map(is_from_outside, self._host.connections())):
                break
            await asyncio.sleep(STOP_LOOK_S)
        self.stop_broker()

    def stop_broker(self) -> None:
        """End the broker at once, without waiting for clients."""
        self._stopping = True
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
        cut(self._host.connections())
        self._host.control.stop()

    def _terminate(self) -> None:
        self._stopping = True
        self._host.control.stop()

    def _end(self) -> None:
        """End the broker with its input or its parent."""
        self.abandoned = self.abandoned or not self._stopping
        self.stop_broker()

    def _queue(self, vhost: str, queue: str) -> Queue:
        there = self._host.node.vhosts.get(vhost)
        if there is None or queue not in there.queues:
            raise OperatorError(f"there is no queue '{queue}' in virtual host '{vhost}'")
        return there.queues[queue]


def is_open(connection: Connection) -> bool:
    """Whether a client from outside has opened a connection, and it is not being closed."""
    return connection.vhost is not None and is_from_outside(connection)


def is_from_outside(connection: Connection) -> bool:
    return connection.peer.internal_user is None


def cut(connections: Iterable[Connection]) -> None:
    """Close the sockets of connections without a close method."""
    for connection in connections:
        cast(SlowTransport, connection.transport).abort()


def is_pipe(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def write_line(value: object) -> None:
    """Write a value to standard output, as one line."""
    os.write(sys.__stdout__.fileno(), json.dumps(value).encode() + b"\n")  # type: ignore[union-attr]
