"""The service that exports what becomes of every message, where that is switched on."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from broker.plugin import Host, Service

if TYPE_CHECKING:
    from .export import Export

NEEDED = ("pyarrow", "numpy")


class ThroughputService(Service):
    """Where `throughput.enabled` is false, nothing but this is even imported."""

    around = True  # else a link might bring what is not logged here, though the upstream has logged that it was taken

    def __init__(self) -> None:
        self._export: Export | None = None

    async def start(self, host: Host) -> None:
        """Raises OSError, ValueError."""
        config = host.config.throughput
        if not config.enabled:
            return
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            raise ValueError(f"throughput.enabled needs {' and '.join(missing)}: pip install 'warrenmq[analytics]'")
        from .export import Export

        export = Export(host, config)
        export.prepare()
        self._export = export
        await export.begin()

    async def stop(self) -> None:
        if self._export is not None:
            await self._export.end()

    def status(self) -> object:
        """None where it is off."""
        return self._export.status() if self._export is not None else None
