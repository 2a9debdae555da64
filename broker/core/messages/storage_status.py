"""The status of a node's storage: what has stored a message when it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass

POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class StorageStatus:
    """The status of storage.

    kind        fsync, os, memory or postgresql
    guarantee   what has a message when it is confirmed, as in "a confirmed message is on {guarantee}"
    warning     why that is weaker than it may seem; or empty
    place       the data folder, or the address of the server; empty in memory
    replicated  whether a confirm waits for a second machine
    """

    kind: str
    guarantee: str
    warning: str = ""
    place: str = ""
    replicated: bool = False


IN_MEMORY = StorageStatus("memory", "no disk", "nothing survives a restart")
