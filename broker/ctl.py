"""The command `warrenctl`. So far it knows one word, `ping`; exit codes are those of RabbitMQ's own tools."""

import socket
import sys
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from .cli import distribution_version

USAGE_STATUS = 64  # EX_USAGE
UNAVAILABLE_STATUS = 69  # EX_UNAVAILABLE: the node cannot be reached or refuses

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
TIMEOUT_S = 10.0
FRAME_LIMIT = 131_072  # bytes; no frame of a handshake is larger

app = typer.Typer(help="Talk to a Warren broker.", add_completion=False, rich_markup_mode=None)


class Unavailable(Exception):
    """The broker cannot be reached, or refuses; the text is one line for the operator."""


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"warrenctl {distribution_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def warrenctl(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Talk to a Warren broker."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def ping(
    url: Annotated[str, typer.Option(metavar="URL", help="amqp://user:password@host:port/vhost")] = DEFAULT_URL,
) -> int:
    """Log in, open the virtual host and leave again."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 5672
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    if parts.scheme != "amqp":
        raise typer.BadParameter("not an amqp:// URL", param_hint="--url")
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


def main() -> int:
    """The exit status; a wrong command line is told in one line."""
    try:
        return app(prog_name="warrenctl", standalone_mode=False) or 0
    except typer.TyperException as error:
        print(f"warrenctl: {' '.join(error.format_message().split())}", file=sys.stderr)
        return USAGE_STATUS


if __name__ == "__main__":
    sys.exit(main())
