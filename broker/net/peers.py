"""Who is at the other end of an accepted socket."""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from ..session.transport import Encryption, Peer
from .certificates import distinguished_name, login_name, validity
from .tls import TLS

MAPPED = "::ffff:"  # begins an IPv4 address on an IPv6 socket


def peer_of(transport: asyncio.BaseTransport, tls: TLS | None) -> Peer:
    name = transport.get_extra_info("peername")
    remote_host, remote_port = end_of(name)
    local_host, local_port = end_of(transport.get_extra_info("sockname"))
    # The name of a Unix socket is a text, and both ends are on this machine. There is none where the peer has already
    # broken the connection: what it sent before is still read, and it may have been anywhere.
    loopback = isinstance(name, str) or remote_host.startswith("127.") or remote_host == "::1"
    peer = Peer(remote_host, remote_port, local_host, local_port, loopback)
    encrypted = cast(ssl.SSLObject | None, transport.get_extra_info("ssl_object"))
    if tls is not None and encrypted is not None:
        describe(peer, encrypted, tls.options.login_from)
    return peer


def end_of(name: object) -> tuple[str, int]:
    """Host and port of a socket's name; path and 0 for a Unix socket."""
    if not isinstance(name, tuple):
        return (name if isinstance(name, str) else ""), 0
    host, port = str(name[0]), int(name[1])
    return (host[len(MAPPED) :] if host.startswith(MAPPED) and "." in host else host), port


def describe(peer: Peer, encrypted: ssl.SSLObject, login_from: str) -> None:
    """What TLS knows of the peer. A certificate is there only where it was asked for, and was verified then."""
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
