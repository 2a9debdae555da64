"""A broker that the tests have not started, such as RabbitMQ in the pipeline of a project."""

from __future__ import annotations

import os
import time
from fnmatch import fnmatchcase
from functools import cached_property, partial
from http.client import NOT_FOUND
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import SkipTest
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from .broker import HOST, Broker, Fault
from .http_api import HTTPAPI, HTTPError
from .vhost import AnyBroker, BrokerError, VHost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .proxy import Proxy

EVERYONE = "*"  # the pattern of all connections
PORTS = {"amqp": 5672, "amqps": 5671}  # by the scheme of an address
HTTP_PORT = 15672
LISTED_S, POLL_S = 10.0, 0.05  # RabbitMQ lists a connection after 5 s at the latest


class NotPossible(BrokerError, SkipTest):
    """Something that cannot be done with this broker: pytest and unittest skip the test, and show the reason."""


class ForeignBroker(AnyBroker):
    """The broker at an address such as amqp://guest:guest@localhost:5672/.

    Its virtual hosts are made by the HTTP API, at port 15672 of the same host unless `http_url` says otherwise. Without
    the API there is only that of the address, which all tests share.

    As a context manager it has a proxy in this process, to which `url` and those of virtual hosts lead: it can fail as
    a network does. What needs a broker of the tests' own raises NotPossible. Addresses with TLS have no proxy, as
    clients verify the name of the host.
    """

    def __init__(self, url: str, http_url: str = "") -> None:
        super().__init__()
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError(f"{without_password(url)} is not an address such as amqp://guest:guest@localhost:5672/")
        self.host = parts.hostname
        self.port = parts.port or PORTS[parts.scheme]
        self.user, self.password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        self.http_url = http_url or f"http://{bracketed(self.host)}:{HTTP_PORT}"
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@"
        self._parts = parts._replace(netloc=f"{login}{bracketed(self.host)}:{self.port}")
        self._shared = unquote(parts.path[1:]) or "/"
        self._proxy: Proxy | None = None
        self.used = False  # whether its network was disturbed since the last `reset`
        self._vhosts: set[str] = set()

    @property
    def url(self) -> str:  # type: ignore[override]
        """The address of the virtual host that the given one names."""
        return self.url_of(self._shared)

    @cached_property
    def has_api(self) -> bool:
        """Whether its HTTP API answers. Raises BrokerError if that refuses the user."""
        try:
            self.api.call("GET", "whoami")
        except HTTPError as error:
            if error.status:
                raise BrokerError(f"the HTTP API at {self.http_url} refuses user '{self.user}': {error}") from None
            return False
        return True

    @property
    def api(self) -> HTTPAPI:
        return HTTPAPI(self.http_url, self.user, self.password)

    def vhost(self, name: str = "") -> VHost:
        """Create a virtual host; without the HTTP API return that of the address, whatever the name."""
        if not self.has_api:
            return VHost(self, self._shared)
        # Other processes of the tests use the same broker, and earlier ones may have left something.
        return super().vhost(f"{name or 'test'}-{os.urandom(4).hex()}")

    def add_vhost(self, name: str) -> None:
        try:
            self.api.call("PUT", "vhosts", name, body={})
            everything = dict.fromkeys(("configure", "write", "read"), ".*")
            self.api.call("PUT", "permissions", name, self.user, body=everything)
        except HTTPError as error:
            raise self.refused("a new virtual host", error) from None
        self._vhosts.add(name)

    def delete_vhost(self, name: str) -> None:
        if name not in self._vhosts:
            return
        self._vhosts.discard(name)
        try:
            self.api.call("DELETE", "vhosts", name)
        except HTTPError as error:
            if error.status != NOT_FOUND:
                raise self.refused("the end of a virtual host", error) from None

    def url_of(self, vhost: str) -> str:
        parts = self._parts
        if self._proxy is not None:
            parts = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{HOST}:{self._proxy.port}")
        return urlunsplit(parts._replace(path="/" + quote(vhost, safe="")))

    def uri_for_links(self, upstream: VHost, downstream: VHost) -> str:
        """Return the address by which links reach a virtual host: within one broker it has no host.

        A broker in a container could not reach itself at the address that the tests use, and no proxy is between.
        """
        if downstream.broker is upstream.broker:
            return f"amqp:///{quote(upstream.name, safe='')}"
        return urlunsplit(self._parts._replace(path="/" + quote(upstream.name, safe="")))

    def refused(self, what: str, error: HTTPError) -> BrokerError:
        """Return the error for something that the HTTP API refuses; NotPossible if this broker cannot do it at all."""
        if error.status == NOT_FOUND or not error.status or "not found" in str(error):
            return NotPossible(f"{what} is not possible with the broker at {self.host}:{self.port}: {error}")
        return super().refused(what, error)

    # Faults

    def drop_connections(self, pattern: str = "*", reason: str = "") -> int:
        """Close the connections to virtual hosts of these tests of which a name matches; return their number."""
        if not reason and pattern == EVERYONE:
            proxy = self._network("drop_connections without a reason")
            return int(proxy.call(proxy.drop))
        if not self.has_api:
            self._not_possible("drop_connections")
        try:
            chosen = [row for row in self._connections() if any(fnmatchcase(name, pattern) for name in names_of(row))]
            if not reason:
                proxy = self._network("drop_connections without a reason")
                return int(proxy.call(proxy.drop, {row["peer_port"] for row in chosen}))
            return sum(self._close(row["name"], reason) for row in chosen)
        except HTTPError as error:
            raise self.refused("drop_connections", error) from None

    def _connections(self) -> list[dict[str, Any]]:
        """Return the connections to virtual hosts of these tests. Raises HTTPError.

        RabbitMQ lists a connection some time after it was opened, so this waits for all those of the proxy.
        """
        give_up_s = time.monotonic() + LISTED_S
        while True:
            found = [row for row in self.api.call("GET", "connections") if row.get("vhost") in self._vhosts]
            expected = len(self._proxy.clients) if self._proxy is not None else 0
            if len(found) >= expected or time.monotonic() > give_up_s:
                return found
            time.sleep(POLL_S)

    def _close(self, connection: str, reason: str) -> bool:
        """Close a connection by the HTTP API; return whether it was still open. Raises HTTPError."""
        try:
            self.api.call("DELETE", "connections", connection, headers={"X-Reason": reason})
        except HTTPError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return True

    def partition(self, whom: str | AnyBroker = EVERYONE) -> Fault:
        """Cut all clients off, as `Broker.partition`."""
        if whom != EVERYONE:
            self._not_possible("partition of some clients")
        proxy = self._network("partition")
        proxy.call(proxy.partition)
        return Fault(self.heal)

    def heal(self) -> None:
        proxy = self._network("heal")
        proxy.call(proxy.heal)

    def delay(self, ms: float) -> Fault:
        proxy = self._network("delay")
        proxy.call(proxy.delay, ms)
        return Fault(partial(proxy.call, proxy.delay, 0))

    def refuse(self) -> Fault:
        proxy = self._network("refuse")
        proxy.call(proxy.refuse)
        return Fault(self.accept)

    def accept(self) -> None:
        proxy = self._network("accept")
        proxy.call(proxy.accept)

    def reset(self) -> None:
        """Undo all faults."""
        if self._proxy is not None and self.used:
            self._proxy.call(self._proxy.reset)
        self.used = False

    undo_faults = reset

    def ensure_running(self) -> None:
        """Do nothing: it is the task of others to start it."""

    def __enter__(self) -> ForeignBroker:
        if self._parts.scheme == "amqp":
            from .proxy import Proxy  # here: it imports asyncio, which an address alone does not need

            self._proxy = Proxy(self.host, self.port)
        return self

    def __exit__(self, *error: object) -> None:
        """End the proxy. The broker goes on: others have started it."""
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.close()

    def _network(self, what: str) -> Proxy:
        """Return the proxy."""
        if self._proxy is None:
            self._not_possible(what)
        self.used = True
        return self._proxy

    def _not_possible(self, what: str) -> NoReturn:
        raise NotPossible(
            f"{what} needs a broker that the tests have started, and that at {self.host}:{self.port} is another one"
        )

    def __getattr__(self, name: str) -> Any:
        """Skip the test for what only a `Broker` has, such as `kill`."""
        if name in {*vars(Broker), *Broker.__annotations__} and not name.startswith("_"):
            self._not_possible(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def names_of(row: Mapping[str, Any]) -> list[str]:
    """Return the names of a connection in the list of the HTTP API."""
    properties = row.get("client_properties") or {}
    names = (row.get("user"), row.get("name"), properties.get("connection_name"), properties.get("cluster_name"))
    return [name for name in names if isinstance(name, str)]


def bracketed(host: str) -> str:
    """Return the host as in an address: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
