"""The status of a node's storage: what has stored a message when it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Config

POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class StorageStatus:
    """The status of storage.

    kind       fsync, os, memory or postgresql
    guarantee  what has a message when it is confirmed, as in "a confirmed message is on {guarantee}"
    warning    why that is weaker than it may seem; or empty
    place      the data folder, or the address of the server; empty in memory
    """

    kind: str
    guarantee: str
    warning: str = ""
    place: str = ""


def local_status(config: Config) -> StorageStatus:
    """Return the status of a node that stores in its data folder, or nothing."""
    if config.memory:
        return StorageStatus("memory", "no disk", "nothing survives a restart")
    if config.sync == "os":
        warning = "confirmed messages may be lost when the machine stops"
        return StorageStatus("os", "no disk yet, in the operating system's memory", warning, config.data_dir)
    return StorageStatus("fsync", "the disk of this machine", "", config.data_dir)
