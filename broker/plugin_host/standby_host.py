"""The host of a standby: what a service gets of a process that waits to take over the store of another broker."""

import socket
import time
from collections.abc import Callable

from ..config import Config, SSLOptions
from ..net.connection_limits import ConnectionLimits, Pool
from ..net.listener import Listener, SocketOptions
from ..net.tls import TLS
from ..operator.local_socket import CONNECTIONS_LIMIT, LocalListener
from ..runtime.supervisor import Report, Supervisor


class StandbyHost:
    """The part of a Host that there is without a node: configuration, listeners, tasks and log."""

    def __init__(
        self,
        config: Config,
        report: Report,
        supervisor: Supervisor,
        options: SocketOptions,
        tls: Callable[[SSLOptions], TLS],
        stop: Callable[[], object],
    ) -> None:
        self.config = config
        self.report = report
        self.supervisor = supervisor
        self.tls = tls
        self.stop = stop  # ends the process
        self.owner = ""  # name of the node that owns the store
        self.not_listening: dict[str, str] = {}  # as in Host
        self._options = options
        self._limits = ConnectionLimits(CONNECTIONS_LIMIT, report)

    def now_ms(self) -> int:
        """Return milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000

    async def bind(self, protocol: str, host: str, port: int, pool: Pool, tls: TLS | None = None) -> Listener:
        """Bind a listener that does not accept yet. Raises OSError."""
        listener = Listener(self._options, self.report, self.supervisor, self._limits, tls, pool)
        await listener.bind(host, port)
        return listener

    def local(self, listening: socket.socket) -> Listener:
        """Return the listener of a unix socket."""
        return LocalListener(listening, self.report, self.supervisor)
