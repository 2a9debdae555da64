"""A standby: waits until the owner of a store on PostgreSQL has ended, and serves no clients until then."""

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from ..config import Config
from ..control_socket import NAME
from ..logs import report
from ..operator.local_socket import bind
from ..plugin_host.host import Service
from ..plugin_host.standby_host import StandbyHost
from ..runtime.supervisor import Supervisor
from ..runtime.systemd import Systemd
from ..storage.errors import StorageFault
from ..storage.postgresql.ownership import Standing
from ..storage.postgresql.store import PostgreSQLStore
from .listeners import socket_options, tls

LOOK_S = 0.1  # between two attempts to take over
RETRY_S = 1.0  # while the server cannot be reached
WARN_S = 3.0  # after which a takeover that waits for a standby server is in the log

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(eq=False, repr=False)
class Standby:
    """The wait of one broker for a store. `ending` is set when the process is to stop."""

    _store: PostgreSQLStore
    _config: Config
    _services: dict[str, Service]
    _ending: asyncio.Event
    _systemd: Systemd

    def __post_init__(self) -> None:
        self._serving: list[Service] = []
        self._supervisor = Supervisor(report, self._ending.set)
        self._host = StandbyHost(
            self._config,
            report,
            self._supervisor,
            socket_options(self._config),
            partial(tls, self._config, report),
            self._ending.set,
        )
        self._socket = Path(self._config.data_dir, NAME)
        self._fault = ""  # why the server cannot be reached
        self._warn_s = math.inf  # when a takeover that waits is in the log

    async def wait(self) -> bool:
        """Return True once this broker owns the store, and False if it is to stop before. Raises StorageFault, OSError.

        The first look is not forgiven: a store that cannot be used ends the process with one line.
        """
        try:
            standing = await self._acquire()
        except StorageFault:
            if self._ending.is_set():
                return False
            raise
        if standing is None:
            return True
        await self._serve()
        self._systemd.ready("standby")
        self._supervisor.keep("systemd_watchdog", self._systemd.watch)
        try:
            while standing is not None:
                self._log(standing)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), RETRY_S if self._fault else LOOK_S)
                if self._ending.is_set():
                    self._systemd.stopping()
                    return False
                standing = await self._look(standing)
            log.info("taking_over", epoch=self._store.ownership.epoch, owner=self._host.owner)
            self._systemd.recovering(f"taking over from {self._host.owner}")
            return True
        finally:
            await self._close()

    async def _look(self, before: Standing) -> Standing | None:
        """Try to take over. While the server cannot be reached, the standing is that of before."""
        try:
            standing = await self._acquire()
        except StorageFault as fault:
            if not self._fault and not self._ending.is_set():
                log.error("store_unavailable", reason=str(fault))
            self._fault = str(fault)
            return before
        if self._fault:
            log.info("store_available")
        self._fault = ""
        return standing

    async def _acquire(self) -> Standing | None:
        """Try to take over, on a thread, until the process is to stop. Raises StorageFault, ConfirmedLost."""
        loop = asyncio.get_running_loop()
        if not self._store.ownership.blocked:
            self._warn_s = loop.time() + WARN_S
        taking = loop.run_in_executor(None, self._store.acquire)
        while not (await asyncio.wait((taking,), timeout=LOOK_S))[0]:
            if self._ending.is_set():
                self._store.abandon()
            elif loop.time() > self._warn_s:
                log.warning("takeover_waits")
                self._warn_s = math.inf
        return taking.result()

    def _log(self, standing: Standing) -> None:
        """Log the owner of the store, when it is another one."""
        if standing.node != self._host.owner:
            self._host.owner = standing.node
            log.info("standby", store=self._store.address.shown, owner=standing.node, epoch=standing.epoch)
            self._systemd.status(f"standby of {standing.node}")

    async def _serve(self) -> None:
        """Serve health checks and the unix socket. Raises OSError, ValueError."""
        try:
            listener = self._host.local(bind(Path(self._config.data_dir)))
        except OSError as error:
            log.warning("no_control_socket", reason=error.strerror or str(error))
            listener = None
        for service in self._services.values():
            if await service.start_standby(self._host, listener):
                self._serving.append(service)

    async def _close(self) -> None:
        self._socket.unlink(missing_ok=True)
        for service in self._serving:
            await service.stop()
        await self._supervisor.stop()
