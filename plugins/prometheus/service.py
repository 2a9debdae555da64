"""The Prometheus service: its own listeners, and the same metrics on the port of the HTTP API."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from warren.broker.config import Prometheus
from warren.broker.plugin import Host, Service

from ..http.lazy_listener import HTTPApp, HTTPListeners
from .state import MetricsState

if TYPE_CHECKING:
    from ..http.asgi import Application

OPTION = "--metrics"
APPLICATION = f"{__package__}.endpoint"  # imports the libraries, which takes a while


class MetricsService(Service):
    """The service that Prometheus scrapes."""

    def __init__(self) -> None:
        self._listeners: HTTPListeners | None = None
        self._state: MetricsState | None = None
        self._guarded: Application | None = None

    async def start(self, host: Host) -> None:
        """Raises OSError, ValueError if a configured address cannot be bound."""
        config = host.config.prometheus
        state = self._state = MetricsState(host)

        def application() -> Application:
            from .endpoint import MetricsEndpoint

            return MetricsEndpoint(state, state.path, guarded=config.authentication_enabled)

        app = HTTPApp("prometheus", "http/prometheus", APPLICATION, application, OPTION)
        self._listeners = HTTPListeners(host, app)
        await self._listeners.open(config.tcp_listener, config.ssl, config.ssl_options, Prometheus().tcp)

    async def stop(self) -> None:
        if self._listeners is not None:
            await self._listeners.close()

    def answers(self, raw_path: str) -> bool:
        """True if a request on the port of the HTTP API is for metrics."""
        path = self._state.shared_path if self._state is not None else ""
        return bool(path) and (raw_path == path or raw_path.startswith(path + "/"))

    async def guarded_application(self) -> Application:
        """Return the application for the port of the HTTP API, which always authenticates."""
        assert self._state is not None
        if self._guarded is None:
            await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, APPLICATION)
            from .endpoint import MetricsEndpoint

            self._guarded = MetricsEndpoint(self._state, self._state.shared_path, guarded=True)
        return self._guarded
