"""Brokers that tests use, whoever has started them: their virtual hosts, and the federation of these."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from .broker import Broker
    from .federation import Federation
    from .http_api import HTTPAPI, HTTPError


NAME_CHARACTERS = 60  # of a test's name in the name of its virtual host
NUMBERS = count(1)  # of virtual hosts of tests


class BrokerError(Exception):
    """The broker could not start, has ended, or refuses a control; the text has the reason."""


class VHost:
    """A virtual host in which the user of the broker has all rights. As a context manager it is deleted at the end.

    `url` is its address for clients; `name` is its name, which `str` returns too; `broker` is its broker.
    """

    def __init__(self, broker: AnyBroker, name: str) -> None:
        self.broker = cast("Broker", broker)  # a foreign one can be used in the same way, and skips what it cannot do
        self.name = name
        self.url = broker.url_of(name)

    def delete(self) -> None:
        """Delete it with all that is in it; its connections are closed. Does nothing if that was done."""
        self.broker.delete_vhost(self.name)

    def federate_exchange(self, name: str, *upstreams: VHost, **parameters: object) -> None:
        """Federate an exchange with those of the same name in the `upstreams`, virtual hosts of this or other brokers.

        The parameters are those of an upstream, such as `max_hops=2`; a name has _ for the - of RabbitMQ's. If the
        exchange is there, its links run when this returns, and have its bindings. Raises BrokerError.
        """
        self._federation.add("exchanges", name, upstreams, parameters)
        self._federation.wait()

    def federate_queue(self, name: str, *upstreams: VHost, **parameters: object) -> None:
        """Federate a queue with those of the same name in the `upstreams`, as `federate_exchange` does an exchange."""
        self._federation.add("queues", name, upstreams, parameters)
        self._federation.wait()

    def wait_for_links(self) -> None:
        """Return when all links of the federated exchanges and queues that are there run. Raises BrokerError."""
        self._federation.wait()

    @cached_property
    def _federation(self) -> Federation:
        from .federation import Federation  # here: few tests need it

        return Federation(self)

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> VHost:
        return self

    def __exit__(self, *error: object) -> None:
        self.delete()


def vhost_name(test: str) -> str:
    """Return a name for a virtual host of this test: the name of the test, and a number.

    The names differ, so that clients that an earlier test has left behind do not connect to it again.
    """
    plain = re.sub(r"[^\w.-]+", "-", test)[:NAME_CHARACTERS].strip("-")
    return f"{plain}-{next(NUMBERS)}"


class AnyBroker:
    """A broker that tests use: `Broker`, which they have started, or `ForeignBroker`, which they have not.

    url             its address for clients, amqp://guest:guest@127.0.0.1:PORT/ for a `Broker`
    host, port      of AMQP
    http_url        address of the HTTP API and the user interface
    user, password  of the administrator
    """

    url: str
    host: str
    port: int = 0
    http_url: str = ""
    user: str
    password: str

    def __init__(self) -> None:
        self._numbers = count(1)  # of virtual hosts without a name

    def vhost(self, name: str = "") -> VHost:
        """Create a virtual host, with a new name if none is given."""
        name = name or f"test-{next(self._numbers)}"
        self.add_vhost(name)
        return VHost(self, name)

    def add_vhost(self, name: str) -> None:
        """Add a virtual host, in which the user has all rights."""
        raise NotImplementedError

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host, if it is there."""
        raise NotImplementedError

    def url_of(self, vhost: str) -> str:
        return self.url + quote(vhost, safe="")

    def uri_for_links(self, upstream: VHost, downstream: VHost) -> str:
        """Return the address by which links reach a virtual host of this broker."""
        return upstream.url

    def refused(self, what: str, error: HTTPError) -> BrokerError:
        """Return the error for something that the HTTP API refuses."""
        return BrokerError(f"{what}: {error}")

    @property
    def api(self) -> HTTPAPI:
        """Its HTTP API."""
        from .http_api import HTTPAPI  # here: few tests need it

        return HTTPAPI(self.http_url, self.user, self.password)
