"""`warrenctl ping --url`: logs in by AMQP, opens the virtual host and leaves again."""

import socket
import sys
from urllib.parse import unquote, urlsplit

USAGE_STATUS = 64  # EX_USAGE
UNAVAILABLE_STATUS = 69  # EX_UNAVAILABLE: the node cannot be reached or refuses

TIMEOUT_S = 10.0
FRAME_LIMIT = 131_072  # bytes; no frame of a handshake is larger


class Unavailable(Exception):
    """The broker cannot be reached, or refuses; the text is one line for the operator."""


def ping(url: str) -> int:
    """The exit status; what went wrong is told in one line."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 5672
    except ValueError:  # which may quote some of the password
        print("warrenctl: --url: not an amqp:// URL", file=sys.stderr)
        return USAGE_STATUS
    if parts.scheme != "amqp":
        print("warrenctl: --url: not an amqp:// URL", file=sys.stderr)
        return USAGE_STATUS
    try:
        _handshake(
            (host, port),
            unquote("guest" if parts.username is None else parts.username),
            unquote("guest" if parts.password is None else parts.password),
            unquote(parts.path[1:]) or "/",
        )
    except (OSError, Unavailable) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or "no answer"
        print(f"warrenctl: {host}:{port}: {' '.join(reason.split())}", file=sys.stderr)
        return UNAVAILABLE_STATUS
    print("Ping succeeded")
    return 0


def _handshake(address: tuple[str, int], user: str, password: str, vhost: str) -> None:
    """Opens a connection up to connection.open-ok and closes it. Raises OSError and Unavailable."""
    from pamqp import commands, common

    # With this capability a refused login is told (connection.close 403) and not just hung up on.
    told: common.FieldTable = {"product": "warrenctl", "capabilities": {"authentication_failure_close": True}}
    with socket.create_connection(address, timeout=TIMEOUT_S) as peer:
        peer.sendall(b"AMQP\x00\x00\x09\x01")
        _expect(peer, "Connection.Start")
        _send(peer, commands.Connection.StartOk(told, "PLAIN", f"\0{user}\0{password}", "en_US"))
        tune = _expect(peer, "Connection.Tune")
        assert isinstance(tune, commands.Connection.Tune)
        _send(peer, commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        _send(peer, commands.Connection.Open(vhost))
        _expect(peer, "Connection.OpenOk")
        _send(peer, commands.Connection.Close(200, "Goodbye", 0, 0))
        _expect(peer, "Connection.CloseOk")


def _send(peer: socket.socket, method: object) -> None:
    from pamqp import base, frame

    assert isinstance(method, base.Frame)
    peer.sendall(frame.marshal(method, 0))


def _expect(peer: socket.socket, name: str) -> object:
    from pamqp import commands, exceptions, frame

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
    while len(received) < size:
        piece = peer.recv(size - len(received))
        if not piece:
            raise Unavailable("the peer closed the connection during the handshake")
        received += piece
    return received
