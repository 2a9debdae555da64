"""A listener: accepts connections at one address, on one or several sockets, plain or with TLS.

It does not use asyncio's server, which accepts all waiting connections at once, beyond every limit, stops when the
system has no more descriptors, does not report failed handshakes, and cannot change its TLS context.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from functools import partial

from ..runtime.supervisor import Report, Supervisor
from ..system_errors import TOO_MANY_FILES, user_name
from .connection_limits import ConnectionLimits, Pool, Slot
from .port_holder import holder_of
from .tls import TLS, handshake_error

# TLS handshakes under way on one listener; at the limit the oldest is cancelled for a new one. Otherwise a thousand
# clients that do not complete theirs would keep all others out for seconds.
HANDSHAKES_LIMIT = 1000
ACCEPTS = 16  # from one socket in a turn: each may cost a handshake
RETRY_S = 1.0  # wait after the system had no more descriptors or memory to accept
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
ANY_ADDRESS, ANY_IPV4, LOOPBACK = "::", "0.0.0.0", "127.0.0.1"
FIRST_FREE_PORT, LAST_PORT = 1024, 65_535  # below the first a process needs a privilege to listen
PORTS_TRIED = 100  # for a free one
REASONS = {
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EMFILE: TOO_MANY_FILES,
}

Protocol = Callable[[Slot], asyncio.Protocol]


@dataclass(slots=True)
class SocketOptions:
    """Options of listening and accepted sockets. A buffer size of None is the system's default."""

    backlog: int = 1024
    nodelay: bool = True
    keepalive: bool = False
    send_bytes: int | None = None
    receive_bytes: int | None = None

    def apply(self, connection: socket.socket) -> None:
        """Set the options of a socket, without those of TCP on a unix socket."""
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, self.nodelay)
        if self.keepalive:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.send_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_bytes)
        if self.receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)


@dataclass(eq=False, repr=False)
class Listener:
    """A listener on one address. It accepts connections after `accept` has set their protocol."""

    _options: SocketOptions
    _report: Report
    _supervisor: Supervisor
    _limits: ConnectionLimits
    tls: TLS | None = None
    pool: InitVar[Pool | None] = None  # counts connections until they have logged in; None for that of all listeners

    def __post_init__(self, pool: Pool | None) -> None:
        self.addresses: list[str] = []  # bound ones, as HOST:PORT
        self.sockets: list[socket.socket] = []
        self._loop = asyncio.get_running_loop()
        self._pool = pool or self._limits.before_login
        self._protocol: Protocol | None = None
        self._handshakes: dict[asyncio.Task[None], str] = {}  # with the peer's address, the oldest first
        self._opening: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None

    async def bind(self, host: str, port: int) -> None:
        """Listen at an address, with any free port for port 0, without accepting. Raises OSError after closing all."""
        try:
            for family, address in await self._resolve(host, port):
                bound = self._bind(family, address)
                self.sockets.append(bound)
                self.addresses.append(address_of(bound.getsockname()))
        except OSError:
            self.close()
            raise

    def accept(self, protocol: Protocol) -> None:
        """Accept connections from now on; `protocol` makes the protocol of each from its slot."""
        self._protocol = protocol
        self._accept_again()

    def close(self) -> None:
        """Stop accepting, and cancel handshakes under way."""
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self.sockets.clear()
        for task in [*self._handshakes, *self._opening]:
            task.cancel()
        if self._retry is not None:
            self._retry.cancel()

    async def _resolve(self, host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
        if host == ANY_ADDRESS and not socket.has_dualstack_ipv6():
            host = ANY_IPV4
        results = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return list(dict.fromkeys((family, (str(name[0]), port)) for family, _, _, _, name in results))

    def _bind(self, family: int, address: tuple[str, int]) -> socket.socket:
        both = address[0] == ANY_ADDRESS
        backlog = self._options.backlog
        bound = socket.create_server(address, family=family, backlog=backlog, dualstack_ipv6=both)
        bound.setblocking(False)
        self._options.apply(bound)  # some options take effect while a connection is made
        return bound

    # Accepting

    def _accept_again(self) -> None:
        self._retry = None
        for listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self._report("cannot_accept", "error", {"reason": listen_error(error, 0)})
                for socket_ in self.sockets:
                    self._loop.remove_reader(socket_)
                self._retry = self._loop.call_later(RETRY_S, self._accept_again)
                return
            self._admit(accepted, address)

    def _admit(self, accepted: socket.socket, address: tuple[object, ...]) -> None:
        slot = self._limits.enter(str(address[0]) if address else "", self._pool, accepted.close)
        if slot is None:
            accepted.close()
            return
        if self.tls is not None and len(self._handshakes) >= HANDSHAKES_LIMIT:
            self._give_up_oldest()
        accepted.setblocking(False)
        if self.tls is not None and self._pool is not self._limits.before_login:
            self.tls.reload_if_changed()  # the AMQP server checks the files of its listeners itself
        peer = address_of(address) if address else "unix socket"
        name = "connection_opening" if self.tls is None else "tls_handshake"
        task = self._supervisor.run(name, self._open(accepted, peer, slot), peer=peer)
        slot.abort = task.cancel
        if self.tls is not None:
            self._handshakes[task] = peer
        self._opening.add(task)
        task.add_done_callback(partial(self._opened, accepted, slot))

    def _give_up_oldest(self) -> None:
        task = next(iter(self._handshakes))
        self._report("tls_handshake_failed", "warning", {"peer": self._handshakes.pop(task), "reason": "too many"})
        task.cancel()

    async def _open(self, accepted: socket.socket, address: str, slot: Slot) -> None:
        assert self._protocol is not None
        try:
            context, timeout_s = None, None
            if self.tls is not None:
                context, timeout_s = self.tls.context, self.tls.options.handshake_timeout_s
            made = partial(self._protocol, slot)
            await self._loop.connect_accepted_socket(made, accepted, ssl=context, ssl_handshake_timeout=timeout_s)
        except OSError as error:  # includes ssl.SSLError, ConnectionError and TimeoutError
            slot.leave()
            if self.tls is not None:
                self._report("tls_handshake_failed", "warning", {"peer": address, "reason": handshake_error(error)})

    def _opened(self, accepted: socket.socket, slot: Slot, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        self._opening.discard(task)
        if task.cancelled() or task.exception() is not None:
            slot.leave()
            accepted.close()  # the task may have been cancelled before it started


def address_of(name: tuple[object, ...]) -> str:
    host, port = str(name[0]), name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_error(error: OSError, port: int, search: bool = True) -> str:
    """Return the reason why a port cannot be listened at; `search` for the program that has it, which takes a while."""
    if isinstance(error, socket.gaierror):
        return "there is no host of this name"
    if error.errno == errno.EACCES and 0 < port < FIRST_FREE_PORT:
        return f"ports below {FIRST_FREE_PORT} need root or CAP_NET_BIND_SERVICE, which the user {user_name()} lacks"
    if error.errno == errno.EADDRINUSE:
        holder = holder_of(port) if search else ""
        return f"another program listens there{f': {holder}' if holder else ', perhaps RabbitMQ or another Warren'}"
    return REASONS.get(error.errno or 0) or error.strerror or str(error)


def another_address(option: str, error: OSError, host: str, port: int) -> str:
    """Return the option that chooses another address: with the next free port if this one is in use."""
    if error.errno == errno.EADDRINUSE:
        for other in range(port + 1, min(port + PORTS_TRIED, LAST_PORT) + 1):
            if is_free(host, other):
                return f"{option} {other if host == LOOPBACK else address_of((host, other))}"
    return f"{option} HOST:PORT"


def is_free(host: str, port: int) -> bool:
    """Return whether nobody listens at an address; a program that begins to listen meanwhile is not kept from it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind((host, port))
        except OSError:
            return False
    return True
