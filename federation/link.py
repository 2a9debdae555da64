"""A link: one federated exchange or queue and one upstream of it, tried for as long as it is wanted.

An attempt dials the upstream, sets up there what this kind of link needs, and moves messages until something breaks.
What it needs upstream stays there when it breaks, and when this broker stops; it is removed only with the link.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from warren.broker.plugin import Child, Exchange, Host, InternalPublisher, Invalid, Queue

from .errors import LinkError
from .link_permissions import acting_user, check_rights
from .link_spec import LinkSpec
from .link_status import ERROR, INVALID_URI, RUNNING, Status
from .upstream.endpoint import Endpoint, parse_endpoint

if TYPE_CHECKING:
    from .upstream.connection import UpstreamChannel, UpstreamConnection
    from .upstream.delivery_parser import Delivery

CLOSE_S = 5.0  # to remove what is at an upstream, and for all of the end of a link twice as long
LEAST_DELAY_S = 0.05  # between attempts, where the settings ask for none
PREFETCH_MAX = 65_535  # what basic.qos has room for
REJECTED_S = 60.0  # between lines about messages that are not taken: there may be many, all alike
# For all that `set_up` asks of the upstream, each request of which has a deadline of its own; and how many bindings an
# upstream makes in a second at least, where it is as slow as one that syncs each.
SET_UP_S, BINDINGS_PER_S = 120, 50
JITTER = 0.1  # of the delay between attempts, so that links which broke together do not come back together


class Link:
    """Owned by the loop. `target` is the exchange or queue here; `status` is what operators see."""

    def __init__(self, host: Host, wanted: LinkSpec, target: Exchange | Queue) -> None:
        self.host = host
        self.target = target
        self.node = host.node
        self.wanted = wanted
        self.settings = wanted.settings
        self.cluster_name = host.node.cluster_name  # which the names of things upstream are made of
        self.status = Status(time.time, self._tell)
        self._life: Child | None = None
        self._waits = False  # for the link before it, or to begin at all
        self._ending = self._removing = False
        self._left_behind = False  # things of ours may be at the upstream
        self._hurried_s = -math.inf  # when an attempt was made without a delay, by the loop
        self._rejected_s = -math.inf  # when the log was told of a message that was not taken, by the loop
        self._endpoints: list[Endpoint] = []
        self._lost: asyncio.Future[LinkError] = asyncio.get_running_loop().create_future()

    def __str__(self) -> str:
        key = self.wanted.key
        return f"{key.kind} '{key.name}' in vhost '{key.vhost}'"

    @property
    def name(self) -> str:
        """Of its connections, at both ends."""
        if not self.wanted.policy:
            return "Federation link"
        return f"Federation link (upstream: {self.wanted.key.upstream}, policy: {self.wanted.policy})"

    @property
    def close_s(self) -> float:
        """The time that closing a connection to an upstream may take: federation.*.connection_close_timeout."""
        config = self.host.config.federation
        links = config.exchanges if self.wanted.key.kind == "exchange" else config.queues
        return links.connection_close_timeout / 1000

    # What a kind of link does

    async def set_up(self, connection: UpstreamConnection) -> None:
        """Make the upstream ready, and begin to consume. Raises LinkError."""
        raise NotImplementedError

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on beside, while the link runs; a LinkError of any ends the attempt."""
        raise NotImplementedError

    def take(self, deliveries: list[Delivery]) -> None:
        """Messages from the upstream; called from `set_up` on."""
        raise NotImplementedError

    def broken(self) -> None:
        """The attempt is over: forget what belonged to its connection."""
        raise NotImplementedError

    async def clean_up(self, connection: UpstreamConnection) -> None:
        """The link is no more: take away from the upstream what nobody needs now. Raises LinkError."""
        raise NotImplementedError

    def inflow(self) -> InternalPublisher:
        """Into the virtual host here. Raises LinkError where that is gone, and the link about to be."""
        vhost = self.wanted.key.vhost
        if vhost not in self.node.vhosts:
            raise LinkError("the virtual host is gone")
        return self.host.inflow(vhost, self.name)

    def lose(self, reason: str) -> None:
        """Something that this attempt needs is gone."""
        if not self._lost.done():
            self._lost.set_result(LinkError(reason))

    def look_at_rights(self) -> None:
        """Users or permissions have changed: the attempt ends where it has lost a right that it needs."""
        try:
            check_rights(self.node, self.wanted)
        except LinkError as fault:
            self.lose(fault.text)

    def needs(self, channel: UpstreamChannel) -> None:
        """This attempt ends with that channel, which the upstream may close by itself."""
        channel.ended.add_done_callback(partial(told, self._lost))

    # Its life

    def start(self, after: Link | None = None) -> None:
        """Begin; once `after`, which had the same names at the upstream, has ended."""
        self._waits = True
        work = partial(self._live, after)
        upstream = self.wanted.key.upstream
        self._life = self.host.supervisor.keep("federation_link", work, link=str(self), upstream=upstream)

    def end(self, removing: bool) -> None:
        """Begin to stop; `removing` takes away what is at the upstream, if the settings allow."""
        self._ending = True
        self._removing = removing and not self.settings.keeps
        if self._life is not None and not self._waits:
            self._life.cancel()

    @property
    def over(self) -> bool:
        return self._life is None or self._life.over

    async def ended(self) -> None:
        """Until nothing of it goes on, which takes at most some seconds after `end`."""
        if self._life is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * CLOSE_S):
                    await self._life.ended()

    async def _live(self, after: Link | None) -> None:
        """A CancelledError is the end only if `end` asked for it: else the supervisor starts the link again."""
        self._endpoints = self._parse()
        if after is not None:
            await after.ended()
            # Whose things are ours now, also where we do not get as far as to the upstream.
            self._left_behind = self._left_behind or after._left_behind and after.cluster_name == self.cluster_name
        self._waits = False
        failed = True
        try:
            if self._endpoints and not self._ending:
                await self._try_for_ever()
            failed = False
        except asyncio.CancelledError:
            failed = not self._ending
            if failed:
                raise
        finally:
            if failed:
                self.status.failed(ERROR, "the link failed in this broker", None)
        if self._removing and self._left_behind and self._endpoints:
            await self._remove()

    def _parse(self) -> list[Endpoint]:
        faults, endpoints = [], []
        for uri in self.settings.uris:
            try:
                endpoints.append(parse_endpoint(uri))
            except Invalid as error:
                faults.append(error.text)
        for text in faults:
            self.host.report("federation_uri_invalid", "error", {"link": str(self), "reason": text})
        if not endpoints:
            self.status.failed(INVALID_URI, "; ".join(faults) or "the upstream has no URI", None)
        return endpoints

    async def _try_for_ever(self) -> None:
        """Until `end`, whose cancellation is lost where an attempt breaks in the same moment."""
        while True:
            fault = LinkError("the link failed in this broker")
            try:
                await self._attempt()
            except LinkError as error:
                fault = error
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                fault = LinkError("the attempt was cancelled")  # by what it called: nobody ended the link
            except Exception as error:  # a bug of ours: this link alone starts anew
                self.host.report("internal_error", "error", {"exc_info": error})
            if self._ending:
                return
            ran = self.status.status == RUNNING
            delay_s = self._delay_s(ran)
            self.status.failed(fault.status, fault.text, time.time() + delay_s)
            event = "federation_disconnected" if ran else "federation_not_connected"
            self._report(event, "info" if ran else "warning", reason=fault.text)
            await asyncio.sleep(delay_s)
            self.status.next_attempt_s = None

    def _delay_s(self, ran: bool) -> float:
        """Until the next attempt: none where the link had worked, but only once in so long, as it may break each time
        as soon as it runs."""
        least_s = max(self.settings.reconnect_delay_s, LEAST_DELAY_S)
        now_s = asyncio.get_running_loop().time()
        if ran and now_s >= self._hurried_s + least_s:
            self._hurried_s = now_s
            return 0.0
        return least_s * random.uniform(1 - JITTER, 1 + JITTER)

    async def _attempt(self) -> None:
        """Until it breaks. Raises LinkError."""
        self._lost = asyncio.get_running_loop().create_future()
        check_rights(self.node, self.wanted)
        if not 0 <= self.settings.prefetch_count <= PREFETCH_MAX:
            raise LinkError(f"prefetch-count is {self.settings.prefetch_count}, it must be from 0 to {PREFETCH_MAX}")
        connection = await self._dial()
        connection.ended.add_done_callback(partial(told, self._lost))
        try:
            await self._set_up(connection)
            self.status.running(self.name)
            self._report("federation_connected", "info")
            await until_one_fails([self._until_lost(), *self.works()])
        finally:
            try:
                self.broken()
                if self._removing and self._left_behind:
                    await self._remove(connection)
            finally:
                await connection.close(self.close_s)

    async def _set_up(self, connection: UpstreamConnection) -> None:
        """`set_up`, for as long as it may take. Raises LinkError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bindings = len(self.target.outgoing) if isinstance(self.target, Exchange) else 0
        connection.transport.expect(done, SET_UP_S + bindings // BINDINGS_PER_S, "made ready what the link needs")
        try:
            await self.set_up(connection)
        finally:
            done.cancel()

    async def _until_lost(self) -> None:
        raise await asyncio.shield(self._lost)

    async def _dial(self) -> UpstreamConnection:
        """The first that answers of the upstream's URIs, in random order. Raises LinkError with what all said."""
        faults: list[LinkError] = []
        for one in random.sample(self._endpoints, len(self._endpoints)):
            self.status.uri = one.safe
            try:
                return await self.dial(one, self.name)
            except LinkError as fault:
                faults.append(fault)
        texts = dict.fromkeys(fault.text for fault in faults)
        raise LinkError("; ".join(texts), faults[-1].code, faults[-1].status)

    async def dial(self, one: Endpoint, name: str) -> UpstreamConnection:
        """Raises LinkError."""
        from .upstream.connection import dial  # with all that it imports: a broker without links does not need it

        vhost = self.wanted.key.vhost if one.vhost is None else one.vhost
        return await dial(self.host, one, vhost, name, self.take, acting_user(self.node, self.wanted))

    async def _remove(self, connection: UpstreamConnection | None = None) -> None:
        """As far as the upstream can be reached now; what cannot be removed is said."""
        self._left_behind = False
        try:
            async with asyncio.timeout(CLOSE_S):
                if connection is not None:
                    await self.clean_up(connection)
                    return
                connection = await self._dial()
                try:
                    await self.clean_up(connection)
                finally:
                    await connection.close(self.close_s)
        except (LinkError, TimeoutError) as error:
            reason = error.text if isinstance(error, LinkError) else "timeout"
            self._report("federation_not_removed", "warning", reason=reason)

    # Telling

    def report_rejected(self, reason: str) -> None:
        """A message of the upstream was not taken: a line in the log, at most one in REJECTED_S."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._rejected_s + REJECTED_S:
            self._rejected_s = now_s
            self._report("federation_message_rejected", "warning", reason=reason)

    def row(self) -> dict[str, object]:
        return self.status.row(self.wanted, self.node.name)

    def _report(self, event: str, level: str, **fields: object) -> None:
        told: dict[str, object] = {"object": str(self), "upstream": self.wanted.key.upstream, "uri": self.status.uri}
        told["upstream_object"] = self.wanted.key.upstream_name
        self.host.report(event, level, told | fields)

    def _tell(self) -> None:
        if self.node.events.heard:
            row = self.row()
            names = ("vhost", "type", "name", "upstream", "upstream_name", "id", "status", "uri", "error")
            self.node.events.emit("warren.federation.link.status", {name: row[name] for name in names})


async def until_one_fails(works: list[Coroutine[Any, Any, None]]) -> None:
    """Runs coroutines beside one another until one of them fails, and raises what it raised; the others are cancelled.

    Not by asyncio.TaskGroup, which cancels the task that waits for it: before Python 3.11.3 that task counts as
    cancelled ever after, and a later asyncio.timeout in it raises CancelledError in place of TimeoutError.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            task.result()


def is_cancelled() -> bool:
    """Whether somebody has cancelled the task that runs."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def told(lost: asyncio.Future[LinkError], ended: asyncio.Future[str] | asyncio.Future[LinkError]) -> None:
    """An attempt, and no later one, is told why something that it needs has ended."""
    reason = ended.result()
    if not lost.done():
        lost.set_result(LinkError(reason) if isinstance(reason, str) else reason)
