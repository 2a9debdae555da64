"""The broker as the process of the tests uses it: it starts the broker, and controls it by lines of JSON on its pipes.

The module imports nothing of the broker itself, so that it costs little in the process of the tests.
"""

from __future__ import annotations

import json
import os
import select
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
from typing import Any
from urllib.parse import quote

START_S = 60.0  # the longest wait for a start, on a machine that others use as well
REPLY_S = 60.0  # the longest wait for a control
STOP_S = 5.0  # after which a broker that does not end is killed
LOG_TAIL_BYTES = 4096  # of the log in the text of an error
# Variables of the tests that would change the broker or slow it down: warnings as errors, debug modes, coverage.
NOT_INHERITED = ("PYTHONWARNINGS", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG", "PYTHONINSPECT", "PYTHONTRACEMALLOC")
NOT_INHERITED_PREFIXES = ("COV_CORE_", "COVERAGE_", "RABBITMQ_")


class BrokerError(Exception):
    """The broker could not start, has ended, or refuses a control; the text has the reason."""


class Fault:
    """A fault that is in effect. As a context manager it is undone at the end, if the broker still runs then."""

    def __init__(self, broker: Broker, undo: Callable[[], object]) -> None:
        self._broker = broker
        self._undo = undo

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *error: object) -> None:
        if self._broker.running:
            self._undo()


class VHost:
    """A virtual host in which `guest` has all rights. As a context manager it is deleted at the end.

    `url` is its address for clients; `name` is its name, which `str` returns too.
    """

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.url = broker.url + quote(name, safe="")

    def delete(self) -> None:
        """Delete it with all that is in it; its connections are closed. Does nothing if that was done."""
        self.broker._do("delete_vhost", name=self.name)

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> VHost:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.delete()
        except BrokerError:
            if self.broker.running:
                raise


class Broker:
    """A broker in a process of its own, on free ports of this machine, in memory. It ends with this process.

    As a context manager it is started, and closed at the end. `config` has keys of rabbitmq.conf with their values.
    After the start these are set:

    url             amqp://guest:guest@127.0.0.1:PORT/
    host, port      of AMQP
    http_url        address of the HTTP API and the user interface
    user, password  of the administrator
    pid             of the process

    All controls return when they are in effect, and raise BrokerError. Threads may share a broker, processes may not.
    """

    url: str
    host: str
    port: int = 0
    http_url: str = ""
    user: str
    password: str
    pid: int

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        self._config = dict(config or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that started it
        self._log: int | None = None  # the descriptor of a file without a name
        self._lock = threading.Lock()
        self._disturbed = False  # since the last `reset`
        self._numbers = count(1)  # of virtual hosts without a name
        self._requests = count(1)
        self._unread = b""  # output after the last line that was read

    # Start and end

    def start(self) -> Broker:
        """Start it, and return it when it is ready. Raises BrokerError.

        After `kill` or `close` it starts anew, with nothing of what it had, at the addresses it had.
        """
        if self.running:
            raise BrokerError("the broker was started already")
        self.close()
        # -P: not the modules of the working folder; what belongs to the project there may have any name.
        line = [sys.executable, "-P", "-m", "warren.testing", "--parent", str(os.getpid())]
        for key, value in (self._last_addresses() | self._config).items():
            line += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        if self._log is None:
            with tempfile.TemporaryFile(prefix="warren-log-") as file:
                self._log = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._log)
        self._owner = os.getpid()
        self._unread = b""
        self._disturbed = False
        # A process group of its own: Ctrl-C ends the tests, whose clean-up may still need the broker.
        self._process = subprocess.Popen(
            line, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=inherited_environment(os.environ), process_group=0,
        )  # fmt: skip
        with ExitStack() as undo:
            undo.callback(self.close)
            facts = json.loads(self._read_line(START_S))
            undo.pop_all()
        for name, value in facts.items():
            setattr(self, name, value)
        return self

    def _last_addresses(self) -> dict[str, object]:
        """Return the keys of the addresses that it had, for clients that outlive it; none before the first start."""
        keys: dict[str, object] = {}
        if self.port and not any(key.startswith("listeners.") for key in self._config):
            keys["listeners.tcp.1"] = f"{self.host}:{self.port}"
        if self.http_url:
            keys["management.tcp.port"] = self.http_url.rpartition(":")[2]
        return keys

    def kill(self) -> None:
        """Kill it, as kill -9 or the system for lack of memory does: its clients notice that their sockets close."""
        if self._process is not None and os.getpid() == self._owner:
            self._process.kill()
        self.close()

    def close(self) -> None:
        """End it; what it had is lost. Its log can still be read. Does nothing if it is not running."""
        process = self._process
        if process is None or os.getpid() != self._owner:
            return
        assert process.stdin is not None and process.stdout is not None
        with self._lock:
            if process.stdin.closed:
                return
            with suppress(OSError):
                process.stdin.write(b'{"do": "stop"}\n')  # the pipe may be open in forked processes too
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

    def vhost(self, name: str = "") -> VHost:
        """Create a virtual host, with a new name if none is given."""
        name = name or f"test-{next(self._numbers)}"
        self._do("add_vhost", name=name)
        return VHost(self, name)

    # Faults, which `reset` undoes

    def drop_connections(self, pattern: str = "*", reason: str = "") -> int:
        """Cut the connections whose user, name or client-provided name matches a pattern of the shell; count them.

        Their sockets are closed without a word, as by a failing network. With a `reason` they are closed as an operator
        closes them, with connection.close, 320 (connection-forced).
        """
        return int(self._do("drop_connections", pattern=pattern, reason=reason))

    def delay(self, ms: float) -> Fault:
        """Send all that the broker sends to AMQP clients this much later: replies, confirms, deliveries, heartbeats."""
        self._do("delay", ms=ms)
        return Fault(self, partial(self._do, "delay", ms=0))

    def refuse(self) -> Fault:
        """Refuse new connections, as if no broker were there. Connections that are open stay."""
        self._do("refuse")
        return Fault(self, self.accept)

    def accept(self) -> None:
        """Accept connections again, after `refuse`."""
        self._do("accept")

    def block(self) -> Fault:
        """Set the alarm of memory: clients that publish get connection.blocked, and are not read any more."""
        self._do("block")
        return Fault(self, self.unblock)

    def unblock(self) -> None:
        """Clear the alarm of memory, after `block`."""
        self._do("unblock")

    def fill_disk(self) -> Fault:
        """Set the alarm of the disk, which blocks clients that publish as the alarm of memory does."""
        self._do("fill_disk")
        return Fault(self, self.free_disk)

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
        """Undo all faults. What has expired or was dropped stays so; timestamps follow the real time again."""
        if self._disturbed and self.running:
            self._do("reset")
            self._disturbed = False

    # The pipes

    def _do(self, control: str, **arguments: object) -> Any:
        """Call a control of the broker and return its result. Raises BrokerError."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            raise BrokerError("the broker is not running")
        if os.getpid() != self._owner:
            raise BrokerError("the broker belongs to the process that started it, which this one was forked from")
        self._disturbed = True
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


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the tests that the broker may have."""
    return {
        name: value
        for name, value in environment.items()
        if name not in NOT_INHERITED and not name.startswith(NOT_INHERITED_PREFIXES)
    }
