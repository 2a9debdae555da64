"""The service that exports what becomes of every message, where that is switched on."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from warren.broker.plugin import Child, Host, Service

if TYPE_CHECKING:
    from .export.exporter import Export

NEEDED = ("pyarrow", "numpy")


class WriterEnded(Exception):
    """The process that writes the files has ended by itself."""


class ThroughputService(Service):
    """Where `throughput.enabled` is false, nothing but this is even imported."""

    around = True  # else a link might bring what is not logged here, though the upstream has logged that it was taken

    def __init__(self) -> None:
        self._export: Export | None = None
        self._restarting: Child | None = None

    async def start(self, host: Host) -> None:
        """Raises OSError, ValueError."""
        config = host.config.throughput
        if not config.enabled:
            return
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            needed = " and ".join(missing)
            raise ValueError(f"throughput.enabled needs {needed}: in a clone of Warren, pip install '.[analytics]'")
        await self._begin(host)
        self._restarting = host.supervisor.keep("throughput_export", partial(self._restart, host))

    async def _begin(self, host: Host) -> Export:
        """Raises OSError."""
        from .export.exporter import Export

        export = Export(host, host.config.throughput)
        export.prepare()
        self._export = export
        await export.begin()
        return export

    async def _restart(self, host: Host) -> None:
        """Begin another export, as after a restart of the broker, when the writer of this one has ended by itself.

        Raises WriterEnded, and OSError where no writer can be started, for the supervisor to try again later.
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
        """None where it is off."""
        return self._export.status() if self._export is not None else None
