"""Alarms of memory, disk and store, which block publishing connections."""

from __future__ import annotations

from collections.abc import Callable

MEMORY, DISK = "memory", "disk"
STORE = "store"  # the server that has the journal cannot be reached
RESOURCES = (MEMORY, DISK, STORE)
LONG_BYTES = 1 << 10  # of a declaration or binding that waits while the disk is full
STORED_LIMIT = 1_000  # new objects that are stored meanwhile, of 1 to 2 KiB each; others wait

Hook = Callable[[str, bool], None]
"""A function that is called with the resource, and whether its alarm is set."""


class Alarms:
    """The resource alarms of a node.

    reason  the text of connection.blocked, empty without an alarm
    stored  the number of objects that were created and stored since the disk is full
    """

    __slots__ = ("reason", "stored", "_hooks", "_on")

    def __init__(self) -> None:
        self.reason = ""
        self.stored = 0
        self._hooks: dict[Hook, None] = {}  # no list, from which each of very many links would be removed by a search
        self._on: set[str] = set()

    def add_hook(self, hook: Hook) -> None:
        """Call a function after each change."""
        self._hooks[hook] = None

    def remove_hook(self, hook: Hook) -> None:
        del self._hooks[hook]

    def set(self, resource: str) -> None:
        self._change(resource, True)

    def clear(self, resource: str) -> None:
        self._change(resource, False)

    def on(self) -> list[str]:
        """Return the resources whose alarm is set."""
        return [resource for resource in RESOURCES if resource in self._on]

    def refuses_new(self, size: int, stored: bool) -> bool:
        """Whether the disk is too full for a new object with a declaration of so many bytes, which is stored or not."""
        return DISK in self._on and (size > LONG_BYTES or stored and self.stored >= STORED_LIMIT)

    def _change(self, resource: str, on: bool) -> None:
        assert resource in RESOURCES
        if (resource in self._on) == on:
            return
        if resource == DISK:
            self.stored = 0
        if on:
            self._on.add(resource)
        else:
            self._on.remove(resource)
        low = " & ".join(name for name in self.on() if name != STORE)
        unreachable = "store cannot be reached" if STORE in self._on else ""
        self.reason = " & ".join(part for part in (f"low on {low}" if low else "", unreachable) if part)
        for hook in list(self._hooks):
            hook(resource, on)
