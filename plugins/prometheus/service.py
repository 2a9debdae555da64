"""The service: addresses of its own, and the same answers on the port of the HTTP API for those who monitor."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from warren.broker.config import Prometheus
from warren.broker.plugin import Host, Service

from ..http.lazy_listener import HTTPApp, HTTPListeners
from .context import State

if TYPE_CHECKING:
    from starlette.types import ASGIApp

APPLICATION = f"{__package__}.application"  # with the libraries, which take a while to import


class MetricsService(Service):
    """What Prometheus scrapes."""

    def __init__(self) -> None:
        self._listeners: HTTPListeners | None = None
        self._state: State | None = None
        self._guarded: ASGIApp | None = None

    async def start(self, host: Host) -> None:
        """Raises OSError, ValueError; not where the port is taken that nobody asked for."""
        config = host.config.prometheus
        state = self._state = State(host)

        def application() -> ASGIApp:
            from .application import Metrics

            return Metrics(state, state.path, guarded=config.authentication_enabled)

        self._listeners = HTTPListeners(host, HTTPApp("prometheus", "http/prometheus", APPLICATION, application))
        await self._listeners.open(config.tcp, config.ssl, config.ssl_options, Prometheus().tcp)

    async def stop(self) -> None:
        if self._listeners is not None:
            await self._listeners.close()

    def answers(self, raw_path: str) -> bool:
        """Whether a request for this path, on the port of the HTTP API, is one for metrics."""
        path = self._state.shared_path if self._state is not None else ""
        return bool(path) and (raw_path == path or raw_path.startswith(path + "/"))

    async def guarded_application(self) -> ASGIApp:
        """What answers there, always asking who it is."""
        assert self._state is not None
        if self._guarded is None:
            await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, APPLICATION)
            from .application import Metrics

            self._guarded = Metrics(self._state, self._state.shared_path, guarded=True)
        return self._guarded
