"""The process that listens at a port, as Linux shows it in /proc: of this user, or for root of any."""

import os
from contextlib import suppress
from itertools import islice

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"
LINES_READ = 20_000  # of each table: the sockets of listeners are the first
FILES_READ = 50_000  # open files of processes: some tenths of a second


def holder_of(port: int) -> str:
    """Return the name and the id of the process, or an empty text if that is unknown."""
    sockets = {f"socket:[{inode}]" for inode in inodes_of(port)}
    if not sockets:
        return ""
    read = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for path in files_of(pid):
            read += 1
            with suppress(OSError):  # it is closed
                if os.readlink(path) in sockets:
                    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
                        return f"{name.read().strip()} (pid {pid})"
        if read >= FILES_READ:
            break
    return ""


def files_of(pid: str) -> list[str]:
    """Return the paths of the open files of a process; none if it has ended, or belongs to another user."""
    try:
        return [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def inodes_of(port: int) -> set[str]:
    """Return the inodes of the sockets that listen at a port, at any address."""
    inodes = set()
    for table in TABLES:
        with suppress(OSError), open(table, encoding="ascii") as lines:
            for line in islice(lines, 1, LINES_READ):
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(fields[9])
    return inodes
