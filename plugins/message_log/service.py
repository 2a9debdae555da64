"""The service that exports all events of messages, if it is enabled."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from warren.broker.plugin import Host, Service

if TYPE_CHECKING:
    from .export.exporter import Export

NEEDED = ("pyarrow", "numpy")


class MessageLogService(Service):
    """The service `message_log`. If `message_log.enabled` is false, nothing else of the export is imported."""

    around = True  # every event of a message must be logged
    _hosts: ClassVar[WeakSet[Host]] = WeakSet()  # those that have exported before

    def __init__(self) -> None:
        self._export: Export | None = None

    async def start(self, host: Host) -> None:
        """Begin the export, if it is enabled. Raises OSError, ValueError."""
        config = host.config.message_log
        if not config.enabled:
            return
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            needed = " and ".join(missing)
            raise ValueError(f"message_log.enabled needs {needed}: in a clone of Warren, pip install '.[analytics]'")
        from .export.exporter import Export

        export = Export(host, config, host in self._hosts)
        self._hosts.add(host)
        export.prepare()
        self._export = export
        for name in config.vhosts:
            if name not in host.node.vhosts:
                what = f"message_log.vhosts: there is no virtual host '{name}': it is exported once it is made"
                host.report("configuration", "warning", {"what": what})
        await export.begin()

    async def stop(self) -> None:
        if self._export is not None:
            await self._export.end()

    def status(self) -> object:
        """Return the status, or None if the export is disabled."""
        return self._export.status() if self._export is not None else None
