"""The transport of a broker for tests: it can send later, as on a slow network, and be cut off, as by a broken one."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import ClassVar, cast

from warren.broker.net.transport import WRITE_HIGH, Transport
from warren.broker.session.connection import Connection

from .slow_socket import SlowSocket


class SlowTransport(Transport):
    """A transport whose socket sends `SlowSocket.latency_s` later, and which a partition can cut off."""

    partitions: ClassVar[set[str]] = set()  # the patterns of the connections that are cut off

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(SlowSocket(cast(asyncio.Transport, transport), self, WRITE_HIGH))
        self.join_partitions()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.partitions:
            self.join_partitions()  # the login has the names of the client

    def join_partitions(self) -> None:
        """Cut the socket off for each partition that the connection belongs to."""
        if self._socket is None or self._connection is None:
            return
        for pattern in self.partitions:
            if matches(self._connection, pattern):
                cast(SlowSocket, self._socket).cut_off(pattern)


def matches(connection: Connection, pattern: str) -> bool:
    """Whether a name of a connection matches a pattern of the shell.

    Its names are that of its user, its own, the client-provided one, and the cluster name of a federation link.
    """
    properties = connection.client_properties
    names = (connection.login_name, connection.name, properties.text("connection_name"))
    return any(name is not None and fnmatchcase(name, pattern) for name in (*names, properties.text("cluster_name")))
