"""What a session asks of the connection's transport. `net.transport` implements it; tests have their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.access.users import User


class Encryption:
    """What TLS settled on, as `tlsv1.3` and OpenSSL's name of the cipher.

    Subject, issuer and validity are those of the client's certificate, empty where it showed none.
    """

    __slots__ = ("protocol", "cipher", "subject", "issuer", "validity")

    def __init__(self, protocol: str, cipher: str, subject: str = "", issuer: str = "", validity: str = "") -> None:
        self.protocol = protocol
        self.cipher = cipher
        self.subject = subject
        self.issuer = issuer
        self.validity = validity


class Peer:
    """Who is at the other end of the socket, and which end is ours. `encryption` is None where there is none.

    `certificate_name` is the user that its certificate names, None where it showed none that was verified. `insider` is
    who it is where that is known without a login, as it is a part of this broker.
    """

    __slots__ = ("host", "port", "local_host", "local_port", "loopback", "certificate_name", "encryption", "insider")

    def __init__(
        self,
        host: str,
        port: int,
        local_host: str,
        local_port: int,
        loopback: bool,
        certificate_name: str | None = None,
        encryption: Encryption | None = None,
        insider: User | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.local_host = local_host
        self.local_port = local_port
        self.loopback = loopback
        self.certificate_name = certificate_name
        self.encryption = encryption
        self.insider = insider

    def __str__(self) -> str:
        """As RabbitMQ names a connection."""
        return f"{bracketed(self.host)}:{self.port} -> {bracketed(self.local_host)}:{self.local_port}"


def bracketed(host: str) -> str:
    """An IPv6 address apart from its port."""
    return f"[{host}]" if ":" in host else host


class TransportPort:
    """The transport of one connection."""

    def flush_soon(self) -> None:
        """There is output: take it with `Connection.take_output` before this turn of the loop ends."""
        raise NotImplementedError

    def call_next_turn(self, fn: Callable[[], None]) -> None:
        """Call `fn` once the output there is now was written; at once where there are no writes."""
        fn()

    def running(self, heartbeat_s: int) -> None:
        """The handshake is over; send heartbeats and watch for them where heartbeat_s is not 0."""
        raise NotImplementedError

    def hold(self) -> None:
        """The connection publishes faster than its queues drain: read no more until `release`, or until they stall."""
        raise NotImplementedError

    def release(self) -> None:
        """The queues have drained."""
        raise NotImplementedError

    def close(self, after_s: float) -> None:
        """Write what there is, then close: at once, or when the peer has, at the latest after that many seconds."""
        raise NotImplementedError

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        """One line for the log."""
        raise NotImplementedError
