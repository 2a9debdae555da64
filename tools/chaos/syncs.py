"""The writes that a disk may lose without power: those that no successful fdatasync has covered, by strace's log."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ("-y", "-ttt", "-s", "0", "-e", "trace=pwrite64,fdatasync")  # options of strace for a log that `Syncs` can read
LINE = re.compile(r"(\d+) +([\d.]+) (?:(\w+)\(\d+<(.*?)>|<\.\.\. \w+ resumed>)(.*)")
OFFSET = re.compile(r", (\d+)(?:\)| <unfinished)")
RESULT = re.compile(r"\) += (-?\d+)")


@dataclass(eq=False, slots=True)
class _Call:
    thread: str
    path: Path
    offset: int = 0
    covers: list[_Call] | None = None  # the writes that a sync makes durable


@dataclass
class Syncs:
    """The writes and syncs of a process.

    unsynced   for each file, the offset of the first byte that was written and may be lost; the files are appended to
    failed_s   when the first call failed, by the clock of the machine

    A sync covers only the writes of its own thread, because the error of a concurrent sync may concern the bytes of
    both. A sync that begins after a failure proves nothing, because the system may have dropped the bytes.
    """

    log: str
    unsynced: dict[Path, int] = field(default_factory=dict)
    failed_s: float | None = None

    def __post_init__(self) -> None:
        running: dict[str, _Call] = {}
        pending: list[_Call] = []
        for match in LINE.finditer(self.log):
            thread, when_s, name, path, rest = match.groups()
            if name is not None:
                running[thread] = call = _Call(thread, Path(path))
                if name == "fdatasync":
                    done = [one for one in pending if one.thread == thread and one.path == call.path]
                    call.covers = done if self.failed_s is None else []
                elif offset := OFFSET.search(rest):
                    call.offset = int(offset[1])
                    pending.append(call)
            result = RESULT.search(rest)
            if result is None or (call := running.pop(thread, None)) is None:
                continue
            if int(result[1]) < 0:
                self.failed_s = self.failed_s or float(when_s)
                pending = [one for one in pending if one is not call]
            elif call.covers is not None:
                covered = call.covers
                pending = [one for one in pending if one not in covered]
        for one in pending:
            self.unsynced[one.path] = min(one.offset, self.unsynced.get(one.path, one.offset))

    def forget(self) -> int:
        """Cut the files to the bytes that are certainly on the disk. Returns the number of lost bytes."""
        lost_bytes = 0
        for path, offset in self.unsynced.items():
            if path.exists() and (over := path.stat().st_size - offset) > 0:
                os.truncate(path, offset)
                lost_bytes += over
        return lost_bytes
