"""A request for handlers: caller, path, query, body, and the objects of the broker that they name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from warren.broker.core.access.users import InternalUser
from warren.broker.plugin import Exchange, Host, ManagementChannel, Node, Queue, User, VHost
from warren.broker.session.connection import Connection

from ...http.asgi import Incoming
from ...http.auth import NONE, Caller, Guard, refresh
from ...http.responses import NOT_OWNER, HTTPError, bad, existing, missing, no_vhost, not_authorised, not_now
from ...http.time_slices import Turn, once_a_turn
from ..stats.rates import BadRange, Ranges, ranges
from .unread import Unread

if TYPE_CHECKING:
    from .state import ManagementState

DEFAULT_EXCHANGE = "amq.default"  # how paths and permissions name the exchange ""
TRUE, FALSE = ("true", "1"), ("false", "0", "")
VHOST_HEADER = "x-vhost"

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Request:
    """A request. `path` has the decoded segments by name.

    `body` is an instance of the route's struct, bytes, or None; `unread` counts the bytes of the response.
    """

    host: Host
    state: ManagementState
    caller: Caller
    incoming: Incoming
    path: Mapping[str, str]
    unread: Unread
    body: Any = None
    vhost: VHost | None = None
    guard: Guard = NONE  # of the route
    _channels: list[ManagementChannel] = field(default_factory=list)
    _acting: bool = False
    # The virtual hosts of lists in the response, with the right that showed them.
    _listed: list[tuple[Callable[[Caller, VHost], bool], list[VHost]]] = field(default_factory=list)

    @property
    def node(self) -> Node:
        return self.host.node

    @property
    def query(self) -> Mapping[str, str]:
        """The first value of each name in the query."""
        return self.incoming.query

    @property
    def user(self) -> User:
        return self.caller.user

    def enter(self, guard: Guard, vhost_required: bool) -> None:
        """Find the virtual host of the path, and check the rights in it: tags first. Raises HTTPError (401, 404)."""
        name = self.path.get("vhost")
        self.vhost = self.node.vhosts.get(name) if name is not None else None
        self.guard = guard
        self.authorize()
        if name is not None and self.vhost is None and vhost_required:
            raise no_vhost(self.incoming.method)

    def authorize(self) -> None:
        """Check the caller's present rights: at first, and after each wait.

        Raises HTTPError (401, 404): 404 if the virtual host in the path was deleted meanwhile, with all permissions.
        """
        if self.guard is not NONE:
            self.caller = refresh(self.host, self.caller)
        if self.vhost is not None:
            self.path_vhost()
        self.guard.check(self.caller, self.vhost)

    def check_kept(self, caller: Caller) -> None:
        """Check that the caller still has all rights of `caller`, with which a response was made in several turns.

        Raises HTTPError: 401 or 404 as `authorize`; 503 if a right is lost that the route does not need, as the answer
        to another attempt is made without it.
        """
        self.authorize()
        listed = ((shown, vhost) for shown, vhosts in self._listed for vhost in vhosts)
        hidden = (vhost for shown, vhost in listed if not shown(self.caller, vhost) and not self._is_deleted(vhost))
        if not caller.tags <= self.caller.tags or any(hidden):
            raise not_now("the rights of the user have changed while the response was made")

    # Waits. Handlers wait only by these methods, because the state that they have checked may change meanwhile.

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Return the result of an awaitable, and check the rights again. Raises HTTPError (401, 404)."""
        result = await awaitable
        self.authorize()
        return result

    async def complete(self, awaitable: Awaitable[T]) -> T:
        """Return the result of an awaitable that completes a change, which is not refused any more."""
        return await awaitable

    async def carry_out(self, steps: Iterable[object]) -> None:
        """Do the steps of a change, and wait for another turn of the loop after each slice of them.

        All are done even if the client disconnects: an incomplete deletion might leave a right without its restriction.
        """
        turn, rest = Turn(), iter(steps)
        with self.acting():
            over = any(turn.is_over() for _ in rest)
        if over:
            work = self.host.supervisor.run("http_change", self._carry_out(turn, rest))
            await self.complete(asyncio.shield(work))

    async def _carry_out(self, turn: Turn, steps: Iterator[object]) -> None:
        over = True
        while over:
            await turn.next()
            with self.acting():
                over = any(turn.is_over() for _ in steps)

    async def in_slices(self, objects: Iterable[T]) -> AsyncIterator[T]:
        """Yield the objects, with another turn of the loop after each slice of work. Raises HTTPError (401, 404)."""
        turn = Turn()
        for one in objects:
            yield one
            if turn.is_over():
                await self.wait(turn.next())

    @asynccontextmanager
    async def searching(self) -> AsyncIterator[None]:
        """Search for a pattern: in no turn of the loop in which another request does. Raises HTTPError (401, 404)."""
        async with once_a_turn(self.state.searches):
            self.authorize()
            yield

    def check_space(self, size: int, stored: bool) -> None:
        """Check that the disk has space for a new parameter of `size` bytes. Raises HTTPError (503).

        Administrators are not refused, as policies and limits get space back.
        """
        alarms, vhost = self.node.alarms, self.vhost.name if self.vhost is not None else ""
        if not self.caller.administers and alarms.refuses_new(size, vhost, stored):
            raise not_now(f"nothing more can be stored now: the broker is {alarms.reason}")

    # Objects

    def vhosts(self) -> list[VHost]:
        """Return the virtual hosts of a list: the one in the path or X-Vhost, or all that the user may enter."""
        return self._vhosts(Caller.enters)

    def visible_vhosts(self) -> list[VHost]:
        """The same with all virtual hosts for users with the tag monitoring."""
        return self._vhosts(Caller.sees)

    def _vhosts(self, shown: Callable[[Caller, VHost], bool]) -> list[VHost]:
        name = self.incoming.headers.get(VHOST_HEADER, "")
        single = self.vhost or (self.node.vhosts.get(name) if name else None)
        candidates = [single] if single is not None else [] if name else list(self.node.vhosts.values())
        vhosts = sorted((vhost for vhost in candidates if shown(self.caller, vhost)), key=lambda vhost: vhost.name)
        self._listed.append((shown, vhosts))
        return vhosts

    def path_vhost(self) -> VHost:
        """Return the virtual host in the path. Raises HTTPError (404) if it was deleted while the request waited."""
        assert self.vhost is not None, "the route has {vhost}, or the frame would not have come here"
        if self._is_deleted(self.vhost):
            raise no_vhost(self.incoming.method)
        return self.vhost

    def _is_deleted(self, vhost: VHost) -> bool:
        return self.node.vhosts.get(vhost.name) is not vhost

    def queue(self) -> Queue:
        """Return the queue in the path. Raises HTTPError (404)."""
        return existing(self.path_vhost().queues.get(self.path["queue"]))

    def exchange_name(self, name: str = "exchange") -> str:
        segment = self.path[name]
        return "" if segment == DEFAULT_EXCHANGE else segment

    def exchange(self, name: str = "exchange") -> Exchange:
        """Return the exchange in the path. Raises HTTPError (404)."""
        return existing(self.path_vhost().exchanges.get(self.exchange_name(name)))

    def connections(self) -> list[Connection]:
        """Return the open connections: all for users with the tag monitoring, otherwise the user's own."""
        return [one for one in self.host.connections() if self.caller.sees_connection(one)]

    # Query

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean of the query. Raises HTTPError (400)."""
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
        """Return the time ranges of samples in the query. Raises HTTPError (400)."""
        try:
            return ranges(self.query)
        except BadRange as error:
            raise HTTPError(400, "invalid_range_parameters", str(error)) from None

    # Checks

    def check_node(self) -> None:
        """Raises HTTPError (404) if the path names another node than this one."""
        if self.path.get("node", self.node.name) != self.node.name:
            raise missing()

    def check_owner(self, owner: User | None) -> None:
        """Check access to an object with an owner. Raises HTTPError (401)."""
        reads = self.incoming.reads
        if owner is not self.user and not (self.caller.monitors if reads else self.caller.administers):
            raise not_authorised(NOT_OWNER)

    def channel(self) -> ManagementChannel:
        """Return a channel with the user's permissions in the virtual host of the path, until `acting` ends."""
        assert self._acting, "nothing would close it"
        channel = self.host.channel(self._channel_user(), self.path_vhost(), self.incoming.peer)
        self._channels.append(channel)
        return channel

    def _channel_user(self) -> User:
        """Return the user whose permissions channels check; a local caller has all."""
        return InternalUser(self.path_vhost().name) if self.caller.is_local else self.user

    @contextmanager
    def sliced_channel(self) -> Iterator[ManagementChannel]:
        """A channel for a handler that works in slices, each in `host.acting`; it closes with the context."""
        channel = self.host.channel(self._channel_user(), self.path_vhost(), self.incoming.peer)
        try:
            yield channel
        finally:
            with self.host.acting(self.user.name):
                channel.close()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """A context in which events name this user. Handlers run in it; after an `await` it must be entered again."""
        with self.host.acting(self.user.name):
            self._acting = True
            try:
                yield
            finally:
                self._acting = False
                for channel in self._channels:
                    channel.close()
                self._channels.clear()
