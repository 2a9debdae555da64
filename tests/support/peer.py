"""The interface of the broker under test, and the broker that listens on a socket; in_process.py has the other."""

import itertools
import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from pamqp.commands import Exchange, Queue

from .amqp_client import Client, Closed, Silence

PATIENCE_S = 60  # for a reply over a socket
CTL = shlex.split(os.environ.get("WARREN_CTL", ""))  # the command line of the peer's rabbitmqctl, with its -n NODE

Name = Callable[[str], str]  # returns a name that no other test has
_numbers = itertools.count(1)


class Peer:
    """The operations of a broker that tests use. If it is `in_process`, it has a `clock` and a `node`."""

    in_process = False

    def __init__(self) -> None:
        self._clients: list[Client] = []

    def dial(self, **peer: Any) -> Client:
        """Open a connection without a handshake."""
        raise NotImplementedError

    def connect(
        self, user: str = "guest", password: str = "guest", vhost: str = "/", address: str = "", **options: Any
    ) -> Client:
        """Open a connection as `Client.open` does, from this address if it is given."""
        return self.dial(**({"address": address} if address else {})).open(user, password, vhost, **options)

    def wait(self, ms: int) -> None:
        """Let this time pass for the broker."""
        raise NotImplementedError

    def set_policy(
        self, name: str, pattern: str, definition: Mapping[str, Any], priority: int = 0, apply_to: str = "all",
        operator: bool = False,
    ) -> None:  # fmt: skip
        """Set a policy of the vhost `/`."""
        raise NotImplementedError

    def clear_policy(self, name: str, operator: bool = False) -> None:
        raise NotImplementedError

    def settings(self, **changed: Any) -> None:
        """Change settings for the connections made from now on."""
        raise NotImplementedError

    def add_vhost(self, name: str) -> None:
        raise NotImplementedError

    def add_user(
        self, name: str, tags: tuple[str, ...] = (), permissions: tuple[str, str, str] = (".*", ".*", ".*")
    ) -> None:
        """Add a user with these permissions to configure, write and read in the vhost `/`; the password is the name."""
        raise NotImplementedError

    def stall(self, client: Client) -> None:
        """Let this client read nothing from now on."""
        raise NotImplementedError

    def unsent_bytes(self, client: Client) -> int:
        """The bytes that the broker has not sent to this client yet."""
        raise NotImplementedError

    def close_connection(self, client: Client, reason: str) -> None:
        """Close a connection as an operator does."""
        raise NotImplementedError

    def name(self, word: str) -> str:
        """A name for a queue or an exchange that no other test uses."""
        raise NotImplementedError

    def _kept(self, client: Client) -> Client:
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.vanish()


class SocketPipe:
    """A pipe over TCP."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the peer has gone: the reader will see the end

    def receive(self, wait_ms: int | None) -> bytes:
        self._socket.settimeout(PATIENCE_S if wait_ms is None else wait_ms / 1000)
        try:
            return self._socket.recv(1 << 20)
        except TimeoutError:
            raise Silence(f"nothing came in {self._socket.gettimeout()} s") from None
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._socket.close()


class SocketPeer(Peer):
    """A broker that listens on an address. Names are unique; queues and exchanges with them are deleted at the end."""

    def __init__(self, address: str) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._prefix = f"check-{os.getpid()}-{next(_numbers)}-"
        self._names: set[str] = set()
        self._policies: set[tuple[str, bool]] = set()

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def set_policy(
        self, name: str, pattern: str, definition: Mapping[str, Any], priority: int = 0, apply_to: str = "all",
        operator: bool = False,
    ) -> None:  # fmt: skip
        command = "set_operator_policy" if operator else "set_policy"
        options = ["--priority", str(priority), "--apply-to", apply_to]
        self._ctl(command, *options, name, pattern, json.dumps(definition))
        self._policies.add((name, operator))

    def clear_policy(self, name: str, operator: bool = False) -> None:
        self._policies.discard((name, operator))
        self._ctl("clear_operator_policy" if operator else "clear_policy", name)

    def _ctl(self, *words: str) -> None:
        assert CTL, "WARREN_CTL does not name the peer's rabbitmqctl"
        subprocess.run([*CTL, "-q", *words], check=True, capture_output=True)

    def dial(self, **peer: Any) -> Client:
        assert not peer, "over a socket the peer address is what it is"
        return self._kept(Client(SocketPipe(*self._address)))

    def name(self, word: str) -> str:
        self._names.add(self._prefix + word)
        return self._prefix + word

    def close(self) -> None:
        super().close()
        for name, operator in list(self._policies):
            self.clear_policy(name, operator)
        if not self._names:
            return
        client = self.connect()
        for name in self._names:
            for kind, field in ((Queue.Delete, "queue"), (Exchange.Delete, "exchange")):
                try:
                    client.channel().call(kind, **{field: name})
                except Closed:
                    pass  # exclusive to a connection whose end the broker has not seen yet
        client.close()
