"""Ports that a test knows before a server listens at them."""

import socket

HOST = "127.0.0.1"


class ReservedPort:
    """A port of 127.0.0.1 that the system gives to nobody until `close`, also while the server at it is stopped.

    A socket that is bound and does not listen reserves it. A server that sets SO_REUSEADDR can listen at it: PostgreSQL
    and the broker do.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


def free_port() -> int:
    """Return a port at which nobody listens now; the system may give it to others."""
    port = ReservedPort()
    port.close()
    return port.number
