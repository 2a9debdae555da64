"""The management service: the HTTP API, and the sampling of counters for its rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.config import HTTPListener, Management
from warren.broker.operator.local_socket import LocalServer
from warren.broker.plugin import Child, Host, Listener, Service, StandbyHost

from ..http.lazy_listener import HTTPApp, HTTPListeners, LazyListener
from .framework.access_log import AccessLog
from .framework.state import ManagementState
from .stats.sampler import Sampler

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from .local_api import LocalAPI

OPTION = "--http"
HOUR_MS = 3_600_000
# Connections at the unix socket stay open: `warrenctl stop` waits on one until the node has stopped.
LOCAL = HTTPListener(idle_timeout=HOUR_MS, shutdown_timeout=1_000, max_keepalive=1 << 30)


class ManagementService(Service):
    """The service of the HTTP API."""

    def __init__(self) -> None:
        self._listeners: HTTPListeners | None = None
        self._sampling: Child | None = None
        self._state: ManagementState | None = None
        self._local: LazyListener | None = None  # of a standby

    async def start(self, host: Host) -> None:
        """Raises ValueError if a configured address cannot be bound."""
        config = host.config.management
        if config.http_log_dir:
            AccessLog(config.http_log_dir, host.report).prepare()  # so an invalid folder fails the start, not a request
        state = self._state = ManagementState(host)

        def application() -> ASGIApp:
            from .dispatcher import application as made

            return made(host, state)

        app = HTTPApp("management", "http", f"{__package__}.dispatcher", application, OPTION)
        self._listeners = HTTPListeners(host, app)
        await self._listeners.open(config.tcp, config.ssl, config.ssl_options, Management().tcp)
        if len(self._listeners) and state.samples.mode != "none":
            sources = host.connections, state.readings.gauges, state.more_samples
            sampler = Sampler(host.node, state.samples, *sources, state.watermarks)
            self._sampling = host.supervisor.keep("management_sampler", sampler.run)

    async def start_standby(self, host: StandbyHost, listener: Listener | None) -> bool:
        """Raises OSError, ValueError if a configured address cannot be bound."""

        def app(local: bool) -> HTTPApp:
            def application() -> ASGIApp:
                from .standby import StandbyAPI

                return StandbyAPI(host, local)

            return HTTPApp("management", "http", f"{__package__}.standby", application, "" if local else OPTION)

        config = host.config.management
        if listener is not None:
            self._local = LazyListener(host, app(local=True), LOCAL, listener)
        self._listeners = HTTPListeners(host, app(local=False))
        await self._listeners.open(config.tcp, config.ssl, config.ssl_options, Management().tcp)
        return True

    @property
    def state(self) -> ManagementState | None:
        """The state since the start of the service, or None."""
        return self._state

    def serve_local(self, host: Host, listener: Listener) -> LocalServer:
        return LocalHTTP(host, listener)

    @property
    def samples_bytes(self) -> int:
        """The memory used by samples of counters."""
        return self._state.samples.used_bytes if self._state is not None else 0

    async def stop(self) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
        if self._state is not None:
            self._state.unread.close()
        if self._listeners is not None:
            await self._listeners.close()
        if self._local is not None:
            await self._local.close()


class LocalHTTP:
    """The HTTP API at the unix socket."""

    def __init__(self, host: Host, listener: Listener) -> None:
        self._host = host
        self._api: LocalAPI | None = None
        app = HTTPApp("management", "http", f"{__package__}.local_api", self._application)
        self._listener = LazyListener(host, app, LOCAL, listener)

    def _application(self) -> ASGIApp:
        from .local_api import LocalAPI

        self._api = LocalAPI(self._host, ManagementState(self._host, sampling=False))
        return self._api

    async def close(self) -> None:
        if self._api is not None:
            self._api.close()
        await self._listener.close()
