"""Alarms of memory, disk and store, which block publishing connections."""

from __future__ import annotations

from collections.abc import Callable

MEMORY, DISK = "memory", "disk"
STORE = "store"  # the server that has the journal cannot be reached
RESOURCES = (MEMORY, DISK, STORE)


class Alarms:
    """The resource alarms of a node.

    `reason` is the text of connection.blocked, empty without an alarm. `hooks` are called after each change with the
    resource, and whether its alarm is set.
    """

    __slots__ = ("reason", "hooks", "_on")

    def __init__(self) -> None:
        self.reason = ""
        self.hooks: list[Callable[[str, bool], None]] = []
        self._on: set[str] = set()

    def set(self, resource: str) -> None:
        self._change(resource, True)

    def clear(self, resource: str) -> None:
        self._change(resource, False)

    def on(self) -> list[str]:
        """Return the resources whose alarm is set."""
        return [resource for resource in RESOURCES if resource in self._on]

    def _change(self, resource: str, on: bool) -> None:
        assert resource in RESOURCES
        if (resource in self._on) == on:
            return
        if on:
            self._on.add(resource)
        else:
            self._on.remove(resource)
        low = " & ".join(name for name in self.on() if name != STORE)
        unreachable = "store cannot be reached" if STORE in self._on else ""
        self.reason = " & ".join(part for part in (f"low on {low}" if low else "", unreachable) if part)
        for hook in list(self.hooks):
            hook(resource, on)
