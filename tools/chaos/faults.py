"""Errors and kills at system calls of a running process, by strace, and small file systems."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.polling import until

from .scenario import NotRun

ATTACH_WITHIN_S = 10.0


def strace(*words: str) -> list[str]:
    """Return the command line of strace without output. Raises NotRun."""
    if shutil.which("strace") is None:
        raise NotRun("strace is not installed (apt-get install strace)")
    return ["strace", "-f", "-qq", "-o", os.devnull, *words]


def inject(calls: str, effect: str) -> list[str]:
    """Return the words of strace for an effect, such as `error=EIO`, on some system calls."""
    return ["-e", f"trace={calls}", "-e", "signal=none", "-e", f"inject={calls}:{effect}"]


@contextmanager
def injected(pid: int, calls: str, effect: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A context in which system calls of a process have an effect by strace."""
    line = strace(*inject(calls, effect), *words, "-p", str(pid))
    tracer = subprocess.Popen(line, stderr=subprocess.PIPE)
    try:
        until(lambda: tracer.poll() is not None or is_traced(pid), "strace attaches", ATTACH_WITHIN_S)
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            if refusal := tracer.stderr.read().decode().strip():  # unless the process has ended by the fault
                raise NotRun(f"strace cannot attach: {refusal[:100]}")
        yield tracer
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGTERM)
        tracer.wait(ATTACH_WITHIN_S)


def is_traced(pid: int) -> bool:
    """Return whether a tracer has all threads of a process."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:  # it or one of its threads has ended
        return False
    return bool(texts) and all("TracerPid:\t0\n" not in text for text in texts)


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """A context with a file system of a size. Raises NotRun."""
    if os.geteuid() != 0:
        raise NotRun("a small file system (tmpfs) needs root")
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotRun(f"no tmpfs can be mounted: {done.stderr.strip()[:100]}")
    try:
        yield folder
    finally:
        until(
            lambda: not subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode, "umount"
        )


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fill(folder: Path) -> Path:
    """Fill a file system to its last byte; return the file."""
    ballast = folder / "ballast"
    with ballast.open("wb", 0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            return ballast
