"""A process that has imported the broker, and forks for each broker that a test starts.

A start takes half a second of processor time, most of it for imports, and the suite has some hundred of them. A fork
runs the same command line as `python -m warren.broker.cli` does, in a process of its own that can be killed, stopped
and waited for. That a broker starts from nothing is tested where nothing but a start is tested.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from .checkout import ROOT, write_distribution

REQUEST_BYTES = 1 << 17  # more than any command line with its environment
FILES = 3  # of a child: standard input, output and error
END_WITHIN_S = 20.0
MOST_FILES = 1024  # of the server, for what it waits for


class ForkedProcess:
    """A child of the fork server, with what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status  # readable when it has ended

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._readable(timeout):
            text = os.read(self._status, 16)
            os.close(self._status)
            assert text, "the fork server has ended"
            self.returncode = int(text)
        return self.returncode

    def _readable(self, timeout: float | None) -> bool:
        poll = select.poll()  # select() knows descriptors below 1,024 only
        poll.register(self._status, select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000))


class ForkServer:
    """The fork server as its parent uses it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = TemporaryDirectory(prefix="warren-fork-server-")
        line = [sys.executable, "-m", __name__, str(theirs.fileno()), self._folder.name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(line, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        self._socket = ours

    def start(
        self, module: str, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], output: IO[bytes]
    ) -> ForkedProcess:
        """Run `main` of this module with these arguments; standard output and error are the one file."""
        request = json.dumps([module, [module, *arguments], str(cwd), dict(environment)]).encode()
        status, theirs = os.pipe()
        try:
            socket.send_fds(self._socket, [request], [output.fileno(), theirs])
        finally:
            os.close(theirs)
        return ForkedProcess(int(self._socket.recv(16)), status)

    def close(self) -> None:
        self._socket.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._folder.cleanup()


@cache
def fork_server() -> ForkServer:
    """The fork server of this process, which starts with its first broker."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def _import_broker(folder: Path) -> None:
    """Import all that a broker imports when it starts, with the plugins of this checkout."""
    sys.path.insert(0, str(write_distribution(folder)))
    import uvloop  # noqa: F401

    from warren.broker import cli, logs  # noqa: F401
    from warren.broker.app import main  # noqa: F401
    from warren.broker.core.exchanges.built_in import new_registry
    from warren.broker.plugin_host.loading import load_exchange_types, load_services

    load_exchange_types(new_registry())
    load_services()


class _Server:
    """The server process: it forks on request, and reports the exit status of each child."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._statuses: dict[int, int] = {}
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the tests do

    def run(self) -> list[Any] | None:
        """Serve until the parent has ended, and return None; in a child, return the task it is to run."""
        while True:
            control = self._control.fileno()
            ready = select.select([control, self._woken], [], [])[0]
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if control in ready:
                request, descriptors, _, _ = socket.recv_fds(self._control, REQUEST_BYTES, 2)
                if not request:
                    return None
                if self._fork(*descriptors):
                    found: list[Any] = json.loads(request)
                    return found

    def _fork(self, output: int, status: int) -> bool:
        """Fork; return whether this is the child."""
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(output, 1)
            os.dup2(output, 2)
            self._control.detach()
            os.closerange(FILES, MOST_FILES)
            return True
        os.close(output)
        self._statuses[pid] = status
        self._control.send(str(pid).encode())
        return False

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = self._statuses.pop(ended[0])
                with suppress(BrokenPipeError):  # nobody waits for it
                    os.write(status, str(os.waitstatus_to_exitcode(ended[1])).encode())
                os.close(status)


def main() -> None:
    _import_broker(Path(sys.argv[2]))
    gc.collect()
    gc.freeze()  # no child looks at what was here before it
    task = _Server(socket.socket(fileno=int(sys.argv[1]))).run()
    if task is None:
        return
    module, sys.argv, folder, environment = task
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    __import__(module)
    sys.exit(sys.modules[module].main())


if __name__ == "__main__":
    main()
