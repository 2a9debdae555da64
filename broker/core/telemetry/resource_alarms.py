"""Alarms of memory, disk and store, which block publishing connections."""

from collections import Counter
from collections.abc import Callable

MEMORY, DISK = "memory", "disk"
STORE = "store"  # the server that has the journal cannot be reached
RESOURCES = (MEMORY, DISK, STORE)
LONG_BYTES = 1 << 10  # of the arguments of a declaration or binding that waits while the disk is full
STORED_LIMIT = 1_000  # new objects of a virtual host that are stored meanwhile, of 1 to 2 KiB each; others wait

Hook = Callable[[str, bool], None]
"""A function that is called with the resource, and whether its alarm is set."""


class Alarms:
    """The resource alarms of a node.

    `reason` is the text of connection.blocked, empty without an alarm.
    """

    __slots__ = ("reason", "_stored", "_hooks", "_on")

    def __init__(self) -> None:
        self.reason = ""
        self._stored: Counter[str] = Counter()  # objects since the disk is full, by virtual host
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

    def count_stored(self, vhost: str) -> None:
        """Count an object of this virtual host that was stored; of an empty one if it belongs to none."""
        if DISK in self._on:
            self._stored[vhost] += 1

    def refuses_new(self, size: int, vhost: str, stored: bool = True) -> bool:
        """Whether the disk is too full for a new object of this virtual host with this size of arguments."""
        return DISK in self._on and (size > LONG_BYTES or stored and self._stored[vhost] >= STORED_LIMIT)

    def _change(self, resource: str, on: bool) -> None:
        assert resource in RESOURCES
        if (resource in self._on) == on:
            return
        if resource == DISK:
            self._stored.clear()
        if on:
            self._on.add(resource)
        else:
            self._on.remove(resource)
        low = " & ".join(name for name in self.on() if name != STORE)
        unreachable = "cut off from its store" if STORE in self._on else ""
        self.reason = " & ".join(part for part in (f"low on {low}" if low else "", unreachable) if part)
        for hook in list(self._hooks):
            hook(resource, on)
