"""`warrenctl ping --url` with an AMQP URL: log in, open the virtual host and close the connection."""

import socket
import sys
from urllib.parse import unquote, urlsplit

from pamqp import base, commands, common, exceptions, frame

from ..system_errors import network_error
from .api_client import password_of
from .errors import UNAVAILABLE, USAGE

TIMEOUT_S = 10.0
FRAME_LIMIT = 131_072  # bytes; no frame of a handshake is larger


class Unavailable(Exception):
    """The broker cannot be reached, or refuses; the text is one line for the operator."""


def ping(url: str, password_file: str = "") -> int:
    """Return the exit status; print the result or, in one line, the error. Raises ExitError (64).

    A missing user means guest with the password guest, as for the HTTP API.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 5672
        if parts.scheme != "amqp":
            raise ValueError
    except ValueError:  # its text may contain a part of the password
        print("warrenctl: --url: not an amqp:// URL", file=sys.stderr)
        return USAGE
    user = unquote(parts.username or "guest")
    if parts.password is not None:
        password = unquote(parts.password)
    elif parts.username is None and not password_file:
        password = "guest"
    else:
        password = password_of(password_file, user, f"{host}:{port}")
    try:
        _handshake((host, port), user, password, unquote(parts.path[1:]) or "/")
    except (OSError, Unavailable) as error:
        known = network_error(error) or error.strerror if isinstance(error, OSError) else ""
        reason = known or str(error) or "no answer"
        print(f"warrenctl: {host}:{port}: {' '.join(reason.split())}", file=sys.stderr)
        return UNAVAILABLE
    print("Ping succeeded")
    return 0


def _handshake(address: tuple[str, int], user: str, password: str, vhost: str) -> None:
    """Open a connection up to connection.open-ok and close it. Raises OSError, Unavailable."""
    # With this capability a failed login is answered with connection.close 403 instead of a closed socket.
    properties: common.FieldTable = {"product": "warrenctl", "capabilities": {"authentication_failure_close": True}}
    with socket.create_connection(address, timeout=TIMEOUT_S) as peer:
        peer.sendall(b"AMQP\x00\x00\x09\x01")
        _expect(peer, "Connection.Start")
        _send(peer, commands.Connection.StartOk(properties, "PLAIN", f"\0{user}\0{password}", "en_US"))
        tune = _expect(peer, "Connection.Tune")
        assert isinstance(tune, commands.Connection.Tune)
        _send(peer, commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        _send(peer, commands.Connection.Open(vhost))
        _expect(peer, "Connection.OpenOk")
        _send(peer, commands.Connection.Close(200, "Goodbye", 0, 0))
        _expect(peer, "Connection.CloseOk")


def _send(peer: socket.socket, method: base.Frame) -> None:
    peer.sendall(frame.marshal(method, 0))


def _expect(peer: socket.socket, name: str) -> object:
    head = _receive(peer, 7)
    if head.startswith(b"AMQP"):
        raise Unavailable("the peer speaks another version of AMQP")
    size = int.from_bytes(head[3:7], "big")
    if head[0] != 1 or size > FRAME_LIMIT:
        raise Unavailable("the peer does not speak AMQP 0-9-1")
    try:
        _, _, method = frame.unmarshal(head + _receive(peer, size + 1))
    except (exceptions.PAMQPException, ValueError) as error:
        raise Unavailable(f"the peer does not speak AMQP 0-9-1: {error}") from None
    if isinstance(method, commands.Connection.Close):
        raise Unavailable(method.reply_text or f"closed with {method.reply_code}")
    if getattr(method, "name", "") != name:
        raise Unavailable(f"the peer did not answer with {name}")
    return method


def _receive(peer: socket.socket, size: int) -> bytes:
    received = b""
    while piece := peer.recv(size - len(received)):
        received += piece
        if len(received) == size:
            return received
    raise Unavailable("the peer closed the connection during the handshake")
