"""The command that takes a backup of a running node."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import BinaryIO

from ... import standard_streams
from ...system_errors import file_error
from ..call import Call
from ..command import OPERATIONS
from ..errors import UNAVAILABLE, USAGE, CommandError
from ..formats import Lines
from ..output_file import replacing

SYNC_BYTES = 16 << 20  # written between two syncs, so that the journal of the node waits for no long one
NICENESS = 19  # the lowest priority


class Received:
    """The archive of a node, which is written to a file while it is read."""

    def __init__(self, read: Callable[[int], bytes], file: BinaryIO, name: str) -> None:
        self._read = read
        self._file = file
        self._name = name
        self._unsynced_bytes = 0

    def read(self, count: int, /) -> bytes:
        """Return bytes of the archive, after they were written. Raises CommandError (69) if they cannot be."""
        data = self._read(count)
        try:
            self._file.write(data)
            self._unsynced_bytes += len(data)
            if self._unsynced_bytes >= SYNC_BYTES and self._name:
                self._file.flush()
                os.fdatasync(self._file.fileno())
                self._unsynced_bytes = 0
        except OSError as error:
            raise CommandError(UNAVAILABLE, f"cannot write {file_error(error, self._name)}") from None
        return data


def banner(call: Call) -> str:
    """Return "" for the standard output, which gets only the backup."""
    file = call.arguments[0]
    return "" if standard_streams.is_output(file) else f'Backing up node {call.node} to a file at "{file}" ...'


def backup(call: Call) -> Lines:
    """Write a backup to a file or the standard output, and verify it meanwhile. Raises CommandError (64, 69)."""
    name = call.arguments[0]
    if standard_streams.is_output(name):
        if sys.stdout.isatty():
            raise CommandError(USAGE, "A backup is no text for a terminal: redirect the output, or name a file")
        receive(call, sys.stdout.buffer, "")
        return Lines(iter(()))
    try:
        with replacing(name, private=True) as file:
            size = receive(call, file, name)
    except OSError as error:
        raise CommandError(UNAVAILABLE, f"cannot write {file_error(error)}") from None
    return Lines(iter([f"Backed up and verified: {size} bytes"]))


def receive(call: Call, file: BinaryIO, name: str) -> int:
    """Write the archive to a file, by name unless it is the standard output; return its bytes. Raises CommandError."""
    from ...storage.archive import NoBackup, Reader  # here: other commands do not need it

    os.nice(NICENESS)  # the node has precedence
    try:
        reader = Reader(Received(call.api.body("warren", "backup"), file, name))
        for _, _, pieces in reader.files():
            for _ in pieces:
                pass
    except NoBackup as fault:
        raise CommandError(UNAVAILABLE, f"no whole backup: {fault}") from None
    return reader.size


OPERATIONS.local(
    "backup <file>: Backs up objects and messages for `warren restore` to a file, - being the standard output",
    banner,
    backup,
)
