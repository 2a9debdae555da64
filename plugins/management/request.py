"""A request as a handler sees it: who asks, what path, query and body say, and where in the broker that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warren.broker.core.access.users import InternalUser
from warren.broker.plugin import Exchange, Host, Node, OperatorChannel, Peer, Queue, User, VHost
from warren.broker.session.connection import Connection

from ..http.auth import Caller
from ..http.responses import NOT_YOURS, HTTPError, bad, missing, not_authorised
from .stats.rates import BadRange, Ranges, ranges

if TYPE_CHECKING:
    from .context import State

DEFAULT_EXCHANGE = "amq.default"  # how paths name it, as an empty segment cannot
TRUE, FALSE = ("true", "1"), ("false", "0", "")
VHOST_HEADER = "x-vhost"


class Request:
    """`path` are the decoded segments by their names in the route, `query` the first value of each name, `headers` have
    lower case names. `body` is what the route says it is: an object of its class, octets, or None.

    `state` is what the service keeps: samples, and what was configured.
    """

    __slots__ = ("host", "state", "caller", "peer", "method", "path", "query", "headers", "body", "vhost", "_channels")

    def __init__(
        self,
        host: Host,
        state: State,
        caller: Caller,
        peer: Peer,
        method: str,
        path: Mapping[str, str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> None:
        self.host = host
        self.state = state
        self.caller = caller
        self.peer = peer
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body: Any = None
        self.vhost: VHost | None = None
        self._channels: list[OperatorChannel] = []

    @property
    def node(self) -> Node:
        return self.host.node

    @property
    def user(self) -> User:
        return self.caller.user

    # Where

    def vhosts(self) -> list[VHost]:
        """The virtual hosts a list is of, by name: that of the path, of X-Vhost, or all that the user may enter."""
        return self._vhosts(self.caller.enters)

    def visible_vhosts(self) -> list[VHost]:
        """The same with those whose figures monitoring sees, which it need not be allowed to enter."""
        return self._vhosts(self.caller.sees)

    def _vhosts(self, shown: Callable[[VHost], bool]) -> list[VHost]:
        if self.vhost is not None:
            return [self.vhost] if shown(self.vhost) else []
        name = self.headers.get(VHOST_HEADER, "")
        named = self.node.vhosts.get(name) if name else None
        candidates = [named] if named is not None else [] if name else list(self.node.vhosts.values())
        return sorted((vhost for vhost in candidates if shown(vhost)), key=lambda vhost: vhost.name)

    def here(self) -> VHost:
        """The virtual host that the path names."""
        assert self.vhost is not None, "the route has {vhost}, or the frame would not have come here"
        return self.vhost

    def queue(self, name: str = "queue") -> Queue:
        """Raises HTTPError (404)."""
        queue = self.here().queues.get(self.path[name])
        if queue is None:
            raise missing()
        return queue

    def exchange_name(self, name: str = "exchange") -> str:
        segment = self.path[name]
        return "" if segment == DEFAULT_EXCHANGE else segment

    def exchange(self, name: str = "exchange") -> Exchange:
        """Raises HTTPError (404)."""
        exchange = self.here().exchanges.get(self.exchange_name(name))
        if exchange is None:
            raise missing()
        return exchange

    def connections(self) -> list[Connection]:
        """Those that are open and the user may see, who sees only own ones if not monitoring."""
        monitors, user = self.caller.monitors, self.user
        return [one for one in self.host.connections() if monitors or one.user is user]

    # What

    def flag(self, name: str, default: bool = False) -> bool:
        """One of the query; raises HTTPError (400)."""
        text = self.query.get(name)
        if text is None:
            return default
        if text.lower() in TRUE:
            return True
        if text.lower() in FALSE:
            return False
        raise bad(f"{name} should be true or false, actually was {text}")

    @property
    def ranges(self) -> Ranges:
        """Of time, that samples are asked for; raises HTTPError (400)."""
        try:
            return ranges(self.query)
        except BadRange as error:
            raise HTTPError(400, "invalid_range_parameters", str(error)) from None

    # May they

    def check_own(self, owner: User | None) -> None:
        """Of what belongs to somebody: monitoring may look, administrators may change. Raises HTTPError (401)."""
        looks = self.method in ("GET", "HEAD")
        if owner is not self.user and not (self.caller.monitors if looks else self.caller.administers):
            raise not_authorised(NOT_YOURS)

    def channel(self) -> OperatorChannel:
        """To declare, delete, publish and get as the user may, in the virtual host of the path; until the answer."""
        channel = self.host.channel(self._channel_user(), self.here(), self.peer)
        self._channels.append(channel)
        return channel

    def _channel_user(self) -> User:
        """The user with whose permissions channels work; a local caller may do everything."""
        return InternalUser(self.here().name) if self.caller.is_local else self.user

    @contextmanager
    def lasting_channel(self) -> Iterator[OperatorChannel]:
        """A channel for a handler that works in slices, each within `host.acting`, until the end of this context."""
        channel = self.host.channel(self._channel_user(), self.here(), self.peer)
        try:
            yield channel
        finally:
            with self.host.acting(self.user.name):
                channel.close()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """What is done within is done by the user. Handlers run so; who goes on after a wait has to enter it again."""
        with self.host.acting(self.user.name):
            try:
                yield
            finally:
                for channel in self._channels:
                    channel.close()
                self._channels.clear()
