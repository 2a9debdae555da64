"""The transport port of a connection, and the peer at its other end. `net.transport` implements the port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.access.users import User


@dataclass(slots=True, eq=False)
class Encryption:
    """Parameters of a TLS connection: protocol (`tlsv1.3`), cipher as OpenSSL names it, and the client's certificate.

    Subject, issuer and validity are empty if the client showed no certificate.
    """

    protocol: str
    cipher: str
    subject: str = ""
    issuer: str = ""
    validity: str = ""


@dataclass(slots=True, eq=False)
class Peer:
    """Addresses of both ends of a socket, and the identity of the client before a login."""

    host: str
    port: int
    local_host: str
    local_port: int
    loopback: bool
    certificate_name: str | None = None  # the user that a verified client certificate names, or None
    encryption: Encryption | None = None  # None without TLS
    internal_user: User | None = None  # the user of a connection from within this broker, or None
    name: str = ""  # of a connection without addresses, or empty

    def __str__(self) -> str:
        """Name of the connection as RabbitMQ lists it."""
        return self.name or f"{bracketed(self.host)}:{self.port} -> {bracketed(self.local_host)}:{self.local_port}"


def bracketed(host: str) -> str:
    """Put an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


class TransportPort:
    """The transport of one connection, as its session uses it."""

    __slots__ = ()  # there are very many

    def flush_soon(self) -> None:
        """Call `Connection.take_output` before this turn of the loop ends, and then `Connection.flushed`."""

    def unsent_bytes(self) -> int:
        """Return the bytes that were written and that the socket has not taken."""
        return 0

    def call_next_turn(self, fn: Callable[[], None]) -> None:
        """Call `fn` once the present output is written; at once if the transport has no socket."""
        fn()

    def running(self, heartbeat_s: int) -> None:
        """Note the end of the handshake: start to send and to expect heartbeats, unless heartbeat_s is 0."""

    def hold(self) -> None:
        """Stop reading until `release`, or until PublisherThrottle finds that the queues make no progress."""

    def release(self) -> None:
        """Read again after the queues have drained."""

    def close(self, after_s: float) -> None:
        """Write the output, and close the socket once the peer has, after `after_s` seconds at the latest."""

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        """Log an event."""
