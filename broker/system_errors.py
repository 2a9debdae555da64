"""Sentences for errors of the operating system: what is wrong, and what to do about it.

An OSError is shown as `[Errno 13] Permission denied: '/data/lock'`. A person who starts a broker needs the user, the
file and the next step. Files that are read as a whole have a bound here, since one such as /dev/zero never ends.
"""

import errno
import os
import pwd
import socket
import stat

RAISE_LIMIT = "raise the limit of open files (ulimit -n, or LimitNOFILE in a unit of systemd)"
TOO_MANY_FILES = f"too many open files: {RAISE_LIMIT}"
NO_MEMORY = "there is not enough memory to read it: raise the limit of this process, or use a larger machine"
WITHOUT_RIGHT = "the user {user} has no right to it: run as the user it belongs to, or change its owner or mode"

MIB = 1 << 20
SMALL_LIMIT = MIB  # bytes or characters of a configuration file or a secret
DEFINITIONS_LIMIT = 256 * MIB  # likewise of definitions

FILES = {
    errno.EACCES: WITHOUT_RIGHT,
    errno.EPERM: WITHOUT_RIGHT,
    errno.ENOENT: "there is no such file or folder: check the path",
    errno.EEXIST: "it is a file, and a folder is needed: choose another path",
    errno.ENOTDIR: "a part of the path is a file, and a folder is needed: choose another path",
    errno.EISDIR: "it is a folder, and a file is needed: choose another path",
    errno.EBADF: "it is closed",
    errno.EBUSY: "it is in use, or a mount of its own: choose another path",
    errno.EPIPE: "its reader has closed it",
    errno.EROFS: "its file system is read-only: mount it for writing, or choose another path",
    errno.ENOSPC: "the disk is full: free some space, or choose a path on another disk",
    errno.EDQUOT: "the quota of the disk is used up: free some space, or choose a path on another disk",
    errno.EMFILE: TOO_MANY_FILES,
    errno.ENFILE: "the system has too many open files: stop other programs, or raise fs.file-max",
}

NETWORK = {
    errno.ECONNREFUSED: "connection refused: nothing listens at this port",
    errno.ECONNRESET: "connection reset by the other end",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "timeout",
}
NO_HOST = "the host has no address: its name is not known, or no name server answers"


def network_error(error: OSError) -> str:
    """Return the known words for an error of connecting, in place of asyncio's; an empty text for any other error."""
    return NO_HOST if isinstance(error, socket.gaierror) else NETWORK.get(error.errno or 0, "")


def user_name(number: int | None = None) -> str:
    """Return the name of a user, or the number of one without a name; by default the user of this process."""
    number = os.geteuid() if number is None else number
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def read_text(
    path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict", limit: int = SMALL_LIMIT
) -> str:
    """Return the text of a file. Raises OSError, also for more than `limit` characters, and UnicodeDecodeError."""
    with open(path, encoding=encoding, errors=errors) as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise too_long(path, limit)
    return text


def read_bytes(path: str | os.PathLike[str], limit: int = SMALL_LIMIT) -> bytes:
    """Return the bytes of a file. Raises OSError, also if it has more than `limit`."""
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise too_long(path, limit)
    return data


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless there is a regular file: a read from a device or a pipe may never return."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, and a file is needed: check the path", os.fspath(path))


def too_long(path: str | os.PathLike[str], limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is longer than {limit // MIB} MiB: check the path", os.fspath(path))


def file_error(error: OSError, path: str = "") -> str:
    """Return a sentence about a file that cannot be used: of the error, or of `path` if the error names none."""
    name = error.filename if isinstance(error.filename, str) else path
    if not name:
        return error.strerror or str(error)
    return f"{name}: {FILES.get(error.errno or 0, '').format(user=user_name()) or error.strerror or error}"
