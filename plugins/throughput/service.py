"""The service that exports what happens to every message, if it is enabled."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from warren.broker.plugin import Child, Host, Service

if TYPE_CHECKING:
    from .export.exporter import Export

NEEDED = ("pyarrow", "numpy")


class WriterEnded(Exception):
    """An error: the process that writes the files has ended by itself."""


class ThroughputService(Service):
    """The service "throughput". If `throughput.enabled` is false, nothing else of the export is imported."""

    around = True  # nothing may happen to messages that is not logged
    _hosts: ClassVar[WeakSet[Host]] = WeakSet()  # that have exported before

    def __init__(self) -> None:
        self._export: Export | None = None
        self._restarting: Child | None = None

    async def start(self, host: Host) -> None:
        """Begin the export, if it is enabled. Raises OSError, ValueError."""
        config = host.config.throughput
        if not config.enabled:
            note_disabled(host)
            return
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            needed = " and ".join(missing)
            raise ValueError(f"throughput.enabled needs {needed}: in a clone of Warren, pip install '.[analytics]'")
        await self._begin(host)
        self._restarting = host.supervisor.keep("throughput_export", partial(self._restart, host))

    async def _begin(self, host: Host) -> Export:
        """Begin an export. Raises OSError."""
        from .export.exporter import Export

        export = Export(host, host.config.throughput, host in self._hosts)
        self._hosts.add(host)
        export.prepare()
        self._export = export
        await export.begin()
        return export

    async def _restart(self, host: Host) -> None:
        """Wait until the writer ends by itself, and begin a new export when the supervisor calls again.

        Raises WriterEnded, or OSError if no writer can be started; the supervisor then tries again later.
        """
        export = self._export
        assert export is not None
        if export.over:
            export = await self._begin(host)
            host.report("throughput_restarted", "warning", {"boot_id": export.boot_id})
        raise WriterEnded(await export.failed())

    async def stop(self) -> None:
        if self._restarting is not None:
            self._restarting.cancel()
        if self._export is not None:
            await self._export.end()

    def status(self) -> object:
        """Return the status, or None if the export is disabled."""
        return self._export.status() if self._export is not None else None


def note_disabled(host: Host) -> None:
    """Note in the folder of an earlier export that messages now come and go without a record."""
    folder = Path(host.config.throughput.directory).absolute()
    if not folder.is_dir():
        return
    from .export.node_state import note_unlogged

    try:
        note_unlogged(folder, host.node.name)
    except OSError as error:
        host.report("throughput_state_not_written", "warning", {"reason": error.strerror or str(error)})
