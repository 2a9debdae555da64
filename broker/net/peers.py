"""The Peer of an accepted socket: addresses, and the certificate of the client."""

import asyncio
import ssl
from typing import cast

from ..session.transport import Encryption, Peer
from .certificates import distinguished_name, login_name, validity
from .tls import TLS

MAPPED = "::ffff:"  # prefix of an IPv4 address on an IPv6 socket


def peer_of(transport: asyncio.BaseTransport, tls: TLS | None) -> Peer:
    """Return the peer of a connected transport."""
    name = transport.get_extra_info("peername")
    remote_host, remote_port = end_of(name)
    local_host, local_port = end_of(transport.get_extra_info("sockname"))
    # The name of a unix socket is a text, and both ends are on this machine. There is no name if the peer has already
    # reset the connection: it counts as remote, because its input is still read.
    loopback = isinstance(name, str) or remote_host.startswith("127.") or remote_host == "::1"
    peer = Peer(remote_host, remote_port, local_host, local_port, loopback)
    encrypted = cast(ssl.SSLObject | None, transport.get_extra_info("ssl_object"))
    if tls is not None and encrypted is not None:
        add_encryption(peer, encrypted, tls.options.login_from)
    return peer


def end_of(name: object) -> tuple[str, int]:
    """Return host and port of a socket's name; path and 0 for a unix socket."""
    if not isinstance(name, tuple):
        return (name if isinstance(name, str) else ""), 0
    host, port = str(name[0]), int(name[1])
    return (host[len(MAPPED) :] if host.startswith(MAPPED) and "." in host else host), port


def add_encryption(peer: Peer, encrypted: ssl.SSLObject, login_from: str) -> None:
    """Set the peer's encryption, and its certificate if one was requested, which TLS has verified."""
    protocol = (encrypted.version() or "").lower()
    cipher = encrypted.cipher()
    peer.encryption = Encryption(protocol, cipher[0] if cipher is not None else "")
    certificate = encrypted.getpeercert()
    if certificate:
        peer.certificate_name = login_name(certificate, login_from)
        names = cast(dict[str, tuple[tuple[tuple[str, str], ...], ...]], certificate)
        peer.encryption.subject = distinguished_name(names.get("subject", ()))
        peer.encryption.issuer = distinguished_name(names.get("issuer", ()))
        peer.encryption.validity = validity(certificate)
