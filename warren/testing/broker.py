"""The broker as the process of the tests uses it: it starts the broker, and controls it by lines of JSON on its pipes.

The module imports nothing of the broker itself, so that it costs little in the process of the tests.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from .data_folder import DataFolder
from .vhost import AnyBroker, BrokerError, VHost

if TYPE_CHECKING:
    from .foreign import ForeignBroker

HOST = "127.0.0.1"
START_S = 60.0  # the longest wait for a start, on a machine that others use as well
REPLY_S = 60.0  # the longest wait for a control
STOP_S = 5.0  # after which a broker that does not end is killed
LOG_TAIL_BYTES = 4096  # of the log in the text of an error
# Variables of the tests that would change the broker or slow it down: warnings as errors, debug modes, coverage.
NOT_INHERITED = ("PYTHONWARNINGS", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG", "PYTHONINSPECT", "PYTHONTRACEMALLOC")
NOT_INHERITED_PREFIXES = ("COV_CORE_", "COVERAGE_", "RABBITMQ_")
# Variables that name a broker to the tests, in place of one that they start, for which pytest has options too
URL_VARIABLE, HTTP_URL_VARIABLE = "WARREN_TESTING_AMQP_URL", "WARREN_TESTING_HTTP_URL"
NUMBERS = count(1)  # of the brokers of this process


class Fault:
    """A fault that is in effect. As a context manager it is undone at the end; `undo` may be called repeatedly."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self.undo = undo

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


class Broker(AnyBroker):
    """A broker in a process of its own, on free ports of this machine. It ends with this process.

    As a context manager, also of `async with`, it is started, and closed at the end. `config` has keys of rabbitmq.conf
    with their values. After the start it has the attributes of `AnyBroker`, and `pid`, that of the process.

    It keeps what is durable in a temporary folder until it is closed: so a test can kill it and start it again.

    All controls return when they are in effect, and raise BrokerError. Threads may share a broker, processes may not.
    """

    pid: int

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = dict(config or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that started it
        self._data: DataFolder | None = None  # None before the start and after `close`
        self._addresses: dict[str, object] = {}  # the keys of its listeners, the same at each start
        self._vhosts: set[str] = set()  # those that were created and not deleted, which each start has
        self._deleted: set[str] = set()  # those that were deleted while it was down
        self._log: int | None = None  # the descriptor of a file without a name
        self._lock = threading.Lock()
        self.used = False  # whether a control was called since the last `reset`
        self._requests = count(1)
        self._unread = b""  # output after the last line that was read

    # Start and end

    def start(self) -> Broker:
        """Start it, and return it when it is ready. Raises BrokerError.

        After `kill`, or after it has ended by itself, it has what was durable. After `close` it has nothing of what it
        had. Its addresses are always the same.
        """
        if self.running:
            raise BrokerError("the broker was started already")
        self._end()
        self._owner = os.getpid()
        if self._data is None:
            self._data = DataFolder()
        # -P: not the modules of the working folder; what belongs to the project there may have any name.
        line = [
            sys.executable,
            "-P",
            "-m",
            "warren.testing",
            "--parent",
            str(os.getpid()),
            "--data",
            str(self._data.path),
        ]
        for key, value in (self._reserved_addresses() | self._config).items():
            line += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        if self._log is None:
            with tempfile.TemporaryFile(prefix="warren-log-") as file:
                self._log = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._log)
        self._unread = b""
        # A process group of its own: Ctrl-C ends the tests, whose clean-up may still need the broker.
        self._process = subprocess.Popen(
            line, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=inherited_environment(os.environ), process_group=0,
        )  # fmt: skip
        with ExitStack() as undo:
            undo.callback(self.close)
            facts = json.loads(self._read_line(START_S))
            for name, value in facts.items():
                setattr(self, name, value)
            for name in self._vhosts:
                self._do("add_vhost", name=name)
            while self._deleted:
                self._do("delete_vhost", name=self._deleted.pop())
            undo.pop_all()
        return self

    def _reserved_addresses(self) -> dict[str, object]:
        """Return the keys of its addresses, whose ports no other process gets, also while the broker is down."""
        if not self._addresses:
            self._addresses["cluster_name"] = f"testing-{os.getpid()}-{next(NUMBERS)}"
            if not any(key.startswith("listeners.") for key in self._config):
                self._addresses["listeners.tcp.1"] = f"{HOST}:{self._reserve_port()}"
            if "management.tcp.port" not in self._config:
                self._addresses["management.tcp.port"] = self._reserve_port()
        return self._addresses

    def _reserve_port(self) -> int:
        reserved, port = reserve_port()
        weakref.finalize(self, os.close, reserved)
        return port

    def kill(self) -> Fault:
        """Kill it, as kill -9 or the system for lack of memory does: its clients notice that their sockets close.

        It is down until `start`, which the end of a `with` statement calls too.
        """
        if self._process is not None and os.getpid() == self._owner:
            self._process.kill()
        self._end()
        return Fault(self._start_again)

    def restart(self, keep: bool = True) -> None:
        """Stop it, as an operator does, and start it again, with what is durable or, without `keep`, as a new one.

        Its clients get connection.close, 320. The virtual hosts of `vhost` are there in both cases. A broker that is
        down is started.
        """
        self._end("shut_down")
        if not keep and self._data is not None:
            self._data.remove()
            self._data = None
        self.start()

    def close(self) -> None:
        """End it; what it had is lost. Its log can still be read. Does nothing if it is not running."""
        self._end()
        if self._data is not None and os.getpid() == self._owner:
            self._data.remove()
            self._data = None
            self._vhosts.clear()
            self._deleted.clear()

    def _start_again(self) -> None:
        if not self.running:
            self.start()

    def _end(self, control: str = "stop_broker") -> None:
        """End the process, if it runs."""
        process = self._process
        if process is None or os.getpid() != self._owner:
            return
        assert process.stdin is not None and process.stdout is not None
        with self._lock:
            if process.stdin.closed:
                return
            with suppress(OSError):
                # The end of the input is not enough: the pipe may be open in forked processes too.
                process.stdin.write(json.dumps({"do": control}).encode() + b"\n")
            process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Broker:
        import asyncio  # here: it takes long, and many projects do not use it

        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    @property
    def running(self) -> bool:
        """Whether its process runs, and this process has started it."""
        return self._process is not None and os.getpid() == self._owner and self._process.poll() is None

    def log(self, start: int = 0) -> str:
        """The broker's log from this byte on."""
        if self._log is None:
            return ""
        return os.pread(self._log, max(self.log_bytes - start, 0), start).decode(errors="replace")

    @property
    def log_bytes(self) -> int:
        """The length of its log."""
        return os.fstat(self._log).st_size if self._log is not None else 0

    # Virtual hosts

    def add_vhost(self, name: str) -> None:
        self._do("add_vhost", name=name)
        self._vhosts.add(name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host, if it is there; at the next start, if the broker is down."""
        self._vhosts.discard(name)
        try:
            self._do("delete_vhost", name=name)
        except BrokerError:
            if self.running:
                raise
            self._deleted.add(name)

    # Faults, which `reset` undoes

    def drop_connections(self, pattern: str = "*", reason: str = "") -> int:
        """Cut the connections of which a name matches a pattern of the shell, and return their number.

        The names are that of the user, that of the connection, the client-provided one, and the cluster name of a
        federation link. Their sockets are closed without a word, as by a failing network. With a `reason` they are
        closed as an operator closes them, with connection.close, 320 (connection-forced).
        """
        return int(self._do("drop_connections", pattern=pattern, reason=reason))

    def partition(self, whom: str | Broker = "*") -> Fault:
        """Cut clients off, as a network that loses all packets: they and the broker hear nothing of each other.

        `whom` is a pattern of the names of connections, as that of `drop_connections`: connections that match, and new
        ones as soon as they have logged in, or at once if all match. With another broker, the federation links between
        both are cut off.
        """
        if isinstance(whom, str):
            self._do("partition", pattern=whom)
            return Fault(partial(self._heal, whom))
        ours, theirs = self._do("cluster_name"), whom._do("cluster_name")
        self._do("partition", pattern=theirs)
        whom._do("partition", pattern=ours)

        def heal() -> None:
            self._heal(theirs)
            whom._heal(ours)

        return Fault(heal)

    def heal(self) -> None:
        """End all partitions of this broker: what was sent meanwhile arrives, unless its sender has given up."""
        self._do("heal")

    def _heal(self, pattern: str) -> None:
        if self.running:
            self._do("heal", pattern=pattern)

    def delay(self, ms: float) -> Fault:
        """Send all that the broker sends to AMQP clients this much later: replies, confirms, deliveries, heartbeats."""
        return self._fault("delay", "delay", ms=ms)

    def refuse(self) -> Fault:
        """Refuse new connections, as if no broker were there. Connections that are open stay."""
        return self._fault("refuse", "accept")

    def accept(self) -> None:
        """Accept connections again, after `refuse`."""
        self._do("accept")

    def block(self) -> Fault:
        """Set the alarm of memory: clients that publish get connection.blocked, and are not read any more."""
        return self._fault("block", "unblock")

    def unblock(self) -> None:
        """Clear the alarm of memory, after `block`."""
        self._do("unblock")

    def fill_disk(self) -> Fault:
        """Set the alarm of the disk, which blocks clients that publish as the alarm of memory does."""
        return self._fault("fill_disk", "free_disk")

    def free_disk(self) -> None:
        """Clear the alarm of the disk, after `fill_disk`."""
        self._do("free_disk")

    def expire_now(self, queue: str, vhost: str | VHost = "/") -> int:
        """Let all ready messages of a queue expire, whatever their TTL, and count them. They are dead-lettered."""
        return int(self._do("expire_now", queue=queue, vhost=str(vhost)))

    def advance(self, ms: float) -> None:
        """Move the broker's clock on; all that becomes due until then happens now, in its order.

        That is: message and queue TTLs, delayed messages, acknowledgement timeouts. Heartbeats follow the real time.
        """
        self._do("advance", ms=ms)

    def reset(self) -> None:
        """Undo all faults, and start the broker if it is down, unless it was closed. Raises BrokerError.

        What has expired or was dropped stays so; timestamps follow the real time again.
        """
        if self._data is None or os.getpid() != self._owner:
            return
        try:
            self._do("reset")  # also when no fault is in effect: it notices that the system is about to end the process
        except BrokerError:
            if self.running:
                raise
            self.start()
        self.used = False

    def undo_faults(self) -> None:
        """Reset it after a test, and kill it if that fails: `ensure_running` starts it for the next test."""
        try:
            self.reset()
        except BrokerError:
            self.kill()

    def ensure_running(self) -> None:
        """Start it for a test, if it is down; as a new one, if it cannot start with what it had. Raises BrokerError."""
        if not self.running:
            try:
                self.start()
            except BrokerError:
                self.start()  # the failure has closed it

    def _fault(self, control: str, undo: str, **arguments: object) -> Fault:
        self._do(control, **arguments)
        return Fault(lambda: self._do(undo, **dict.fromkeys(arguments, 0)) if self.running else None)

    # The pipes

    def _do(self, control: str, **arguments: object) -> Any:
        """Call a control of the broker and return its result. Raises BrokerError."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            raise BrokerError("the broker is not running")
        if os.getpid() != self._owner:
            raise BrokerError("the broker belongs to the process that started it, which this one was forked from")
        self.used = True
        with self._lock:
            number = next(self._requests)
            try:
                process.stdin.write(json.dumps({"do": control, "id": number, **arguments}).encode() + b"\n")
            except OSError:
                raise self._has_ended() from None
            reply: dict[str, Any] = {}
            while reply.get("id") != number:  # others are those of calls that an exception, such as Ctrl-C, has ended
                reply = json.loads(self._read_line(REPLY_S))
        if "error" in reply:
            raise BrokerError(reply["error"])
        return reply["result"]

    def _read_line(self, within_s: float) -> bytes:
        """Read a line of its output. Raises BrokerError."""
        assert self._process is not None and self._process.stdout is not None
        output = self._process.stdout.fileno()
        poll = select.poll()  # as select takes no high descriptors
        poll.register(output, select.POLLIN)
        until_s = time.monotonic() + within_s
        while b"\n" not in self._unread:
            if not poll.poll(max(until_s - time.monotonic(), 0) * 1000):
                raise BrokerError(f"no reply within {within_s:.0f} s:\n{self.log()[-LOG_TAIL_BYTES:]}")
            some = os.read(output, 1 << 16)
            if not some:
                raise self._has_ended()
            self._unread += some
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _has_ended(self) -> BrokerError:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        return BrokerError(
            f"the broker has ended with status {self._process.returncode}:\n{self.log()[-LOG_TAIL_BYTES:]}"
        )


def open_broker(config: Mapping[str, object], url: str = "", http_url: str = "") -> Broker | ForeignBroker:
    """Return a broker with this configuration, which `with` starts, or the one at a URL.

    The URL is this one or that of the variable; `http_url` is that of its HTTP API.
    """
    url = url or os.environ.get(URL_VARIABLE, "")
    if not url:
        return Broker(config)
    from .foreign import ForeignBroker  # here: few projects need it

    return ForeignBroker(url, http_url or os.environ.get(HTTP_URL_VARIABLE, ""))


def reserve_port() -> tuple[int, int]:
    """Return the descriptor of a socket that is bound to a free port, and does not listen, and the port.

    As long as it is open, no other process gets the port, while the broker can listen there, and again after a pause.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    port: int = reserved.getsockname()[1]
    return reserved.detach(), port


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the tests that the broker may have."""
    return {
        name: value
        for name, value in environment.items()
        if name not in NOT_INHERITED and not name.startswith(NOT_INHERITED_PREFIXES)
    }
