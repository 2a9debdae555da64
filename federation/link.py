"""A link between a federated exchange or queue and one of its upstreams, which reconnects until it is ended.

An attempt connects to the upstream, declares there what this kind of link needs, and forwards messages until something
fails. The declared objects stay upstream when an attempt fails and when this broker stops; they are deleted only when
the link is removed.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections.abc import Coroutine
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from warren.broker.plugin import Child, Exchange, Host, InternalPublisher, Invalid, Queue

from .connection_attempts import Admission, Place
from .demand import PREFETCH_MAX
from .link_permissions import acting_user, check_rights
from .link_spec import LinkSpec
from .link_status import ERROR, INVALID_URI, RUNNING, LinkStatus
from .upstream.endpoint import Endpoint, parse_endpoint
from .upstream.errors import NOT_ALONE, LinkError
from .upstream.turns import LINK_COST, Turns

if TYPE_CHECKING:
    from .upstream.connection import UpstreamChannel, UpstreamConnection
    from .upstream.delivery_parser import Delivery

CONNECTION = f"{__package__}.upstream.connection"
CLOSE_S = 5.0  # to delete what the link declared upstream; ending a link may take twice as long
MIN_DELAY_S = 0.05  # between attempts, if the settings ask for none
REJECTED_S = 60.0  # between log lines about rejected messages, which may be many and alike
# The deadline of `set_up`, whose requests also have deadlines of their own, is extended for many bindings: an upstream
# that syncs each binding to its disk makes about BINDINGS_PER_S.
SET_UP_S, BINDINGS_PER_S = 120, 50
JITTER = 0.1  # of the delays between attempts and between checks


class Pace:
    """The admission and the turns of all links, so that very many links hold neither the event loop nor an upstream."""

    def __init__(self) -> None:
        self.admission = Admission()
        self.turns = Turns()


class Link:
    """A link, in one of its attempts or between two. Its methods are called in the loop's thread only.

    `target` is the local exchange or queue; operators see `status`; `cluster_name` is that of this broker when the link
    was made, and is part of names upstream.
    """

    def __init__(self, host: Host, pace: Pace, spec: LinkSpec, target: Exchange | Queue) -> None:
        self.host = host
        self.pace = pace
        self.target = target
        self.node = host.node
        self.spec = spec
        self.settings = spec.settings
        self.cluster_name = host.node.cluster_name
        self.status = LinkStatus(time.time, self._emit_status)
        self._task: Child | None = None
        self._after: Link | None = None  # the previous link, until it has ended
        self._waits = False  # for the previous link to end, or for its own task to start
        self._connection: UpstreamConnection | None = None  # of the present attempt
        self._ending = self._removing = False
        self._left_upstream = False  # the upstream may have objects that the link declared
        self._hurried_s = -math.inf  # loop time of the last attempt without a delay
        self._rejected_s = -math.inf  # loop time of the last log line about a rejected message
        self._endpoints: list[Endpoint] = []
        self._failed: asyncio.Future[LinkError] = asyncio.get_running_loop().create_future()
        self.passive_channel: UpstreamChannel | None = None

    def __str__(self) -> str:
        key = self.spec.key
        return f"{key.kind} '{key.name}' in vhost '{key.vhost}'"

    @property
    def name(self) -> str:
        """The name of the link's connections, at both ends."""
        if self.settings.drain:
            return f"Federation link (upstream: {self.spec.key.upstream}, drain)"
        if not self.spec.policy:
            return "Federation link"
        return f"Federation link (upstream: {self.spec.key.upstream}, policy: {self.spec.policy})"

    @property
    def close_s(self) -> float:
        """The time that closing a connection may take, in seconds: federation.*.connection_close_timeout."""
        config = self.host.config.federation
        links = config.exchanges if self.spec.key.kind == "exchange" else config.queues
        return links.connection_close_timeout / 1000

    async def open_passive_channel(self, connection: UpstreamConnection) -> UpstreamChannel:
        """Return the channel of passive declarations; one that fails closes it. Raises LinkError."""
        if self.passive_channel is None:
            self.passive_channel = await connection.channel()
        return self.passive_channel

    # Overridden by each kind of link

    async def set_up(self, connection: UpstreamConnection) -> None:
        """Declare the objects that the link needs upstream, and start to consume. Raises LinkError."""
        raise NotImplementedError

    def background_work(self) -> list[Coroutine[Any, Any, None]]:
        """Return coroutines to run while the link runs; a LinkError in any of them ends the attempt."""
        raise NotImplementedError

    def take(self, deliveries: list[Delivery]) -> None:
        """Handle deliveries of the upstream, which may arrive from `set_up` on."""
        raise NotImplementedError

    def disconnected(self) -> None:
        """Release everything that belonged to the connection, after the attempt has ended."""
        raise NotImplementedError

    async def clean_up(self, connection: UpstreamConnection) -> None:
        """Delete the objects that the link declared upstream. Raises LinkError."""
        raise NotImplementedError

    def open_publisher(self) -> InternalPublisher:
        """Open a publisher into the local virtual host. Raises LinkError if the virtual host is deleted."""
        vhost = self.spec.key.vhost
        if vhost not in self.node.vhosts:
            raise LinkError("the virtual host is deleted")
        return self.host.inflow(vhost, self.name)

    def fail(self, reason: str) -> None:
        """End the attempt with this error, unless it has failed already."""
        if not self._failed.done():
            self._failed.set_result(LinkError(reason))

    def suspend(self) -> None:
        """Abort the connection, as another broker may act as this one."""
        if self._connection is not None:
            self._connection.transport.abort(NOT_ALONE)

    def recheck_permissions(self) -> bool:
        """Return whether users and permissions allow the link; end the attempt if not."""
        try:
            check_rights(self.node, self.spec)
        except LinkError as fault:
            self.fail(fault.text)
            return False
        return True

    def end_with(self, channel: UpstreamChannel) -> None:
        """End the attempt when this channel is closed."""
        channel.ended.add_done_callback(partial(fail_with, self._failed))

    # Starting and ending

    def start(self, after: Link | None = None) -> None:
        """Start the link, once the link `after`, which uses the same names upstream, has ended."""
        self._waits = True
        self._after = after
        upstream = self.spec.key.upstream
        self._task = self.host.supervisor.keep("federation_link", self._run, link=str(self), upstream=upstream)

    def end(self, removing: bool) -> None:
        """Begin to end the link; `removing`: delete its objects upstream, unless the settings keep them."""
        self._ending = True
        self._removing = removing and not self.settings.keeps
        if self._task is not None and not self._waits:
            self._task.cancel()

    @property
    def is_over(self) -> bool:
        return self._task is None or self._task.over

    async def ended(self) -> None:
        """Wait until the link's task has ended, for 2 * CLOSE_S at most."""
        if self._task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * CLOSE_S):
                    await self._task.ended()

    async def _run(self) -> None:
        """Run the link. A CancelledError ends it only after `end`; otherwise the supervisor starts it again."""
        self._endpoints = self._parse()
        after = self._after
        if after is not None:
            await after.ended()
            # This link takes over the previous one's objects upstream, even if it never gets connected.
            self._left_upstream = (
                self._left_upstream or after._left_upstream and after.cluster_name == self.cluster_name
            )
        self._after = after = None  # which has ended, and is not kept
        self._waits = False
        failed = True
        try:
            if self._endpoints and not self._ending:
                await self._retry_loop()
            failed = False
        except asyncio.CancelledError:
            failed = not self._ending
            if failed:
                raise
        finally:
            if failed:
                self.status.failed(ERROR, "the link failed in this broker", None)
        if self._removing and self._left_upstream and self._endpoints:
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

    async def _retry_loop(self) -> None:
        """Make attempts until `end`, whose cancellation is lost if an attempt fails at the same time."""
        while True:
            fault = LinkError("the link failed in this broker")
            try:
                await self._attempt()
            except LinkError as error:
                fault = error.with_traceback(None)  # which has the frames of the attempt, and so its connection
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                fault = LinkError("the attempt was cancelled")  # by something it awaited: the link was not ended
            except Exception as error:  # a bug: only this link is affected, and starts again
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
        """Return the delay until the next attempt, in seconds.

        A link that ran tries again almost at once, but only once within the usual delay, since it may fail each time it
        runs.
        """
        least_s = max(self.settings.reconnect_delay_s, MIN_DELAY_S)
        now_s = asyncio.get_running_loop().time()
        if ran and now_s >= self._hurried_s + least_s:
            self._hurried_s = now_s
            return least_s * random.uniform(0, JITTER)
        return self.jittered(least_s)

    def jittered(self, seconds: float) -> float:
        """Return about this many seconds, so that links which began together do not continue together."""
        return seconds * random.uniform(1 - JITTER, 1 + JITTER)

    async def _attempt(self) -> None:
        """Make one attempt, until it fails. Raises LinkError."""
        self._failed = asyncio.get_running_loop().create_future()
        check_rights(self.node, self.spec)
        if not 0 <= self.settings.prefetch_count <= PREFETCH_MAX:
            raise LinkError(f"prefetch-count is {self.settings.prefetch_count}, it must be from 0 to {PREFETCH_MAX}")
        with await self._enter() as place:
            connection = self._connection = await self._dial()
            self.status.cluster_name, self.status.vhost = connection.cluster_name or "", connection.vhost
            connection.ended.add_done_callback(partial(fail_with, self._failed))
            try:
                await self._set_up(connection)
                self.status.running(self.name)
                self._report("federation_connected", "info")
                place.leave()
                self.pace.turns.spend(LINK_COST)
                await until_one_fails([self._until_failed(), *self.background_work()])
            finally:
                try:
                    self.disconnected()
                    if self._removing and self._left_upstream:
                        await self._remove(connection)
                finally:
                    try:
                        await connection.close(self.close_s)
                    finally:
                        self._connection = None

    async def _enter(self) -> Place:
        """Wait for a place for an attempt."""
        return await self.pace.admission.enter((self.spec.key.vhost, self.spec.key.upstream))

    async def _set_up(self, connection: UpstreamConnection) -> None:
        """Call `set_up` with a deadline. Raises LinkError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bindings = len(self.target.outgoing) if isinstance(self.target, Exchange) else 0
        connection.transport.expect(done, SET_UP_S + bindings // BINDINGS_PER_S, "declared all objects of the link")
        try:
            await self.set_up(connection)
        finally:
            done.cancel()

    async def _until_failed(self) -> None:
        raise await asyncio.shield(self._failed)

    async def _dial(self) -> UpstreamConnection:
        """Connect to the first of the upstream's URIs that works, in random order. Raises LinkError with all errors."""
        faults: list[LinkError] = []
        for endpoint in random.sample(self._endpoints, len(self._endpoints)):
            self.status.uri = endpoint.safe
            try:
                return await self.dial(endpoint, self.name)
            except LinkError as fault:
                faults.append(fault.copy())
        texts = dict.fromkeys(fault.text for fault in faults)
        raise LinkError("; ".join(texts), faults[-1].code, faults[-1].status)

    async def dial(self, endpoint: Endpoint, name: str) -> UpstreamConnection:
        """Open a connection called `name`. Raises LinkError."""
        if CONNECTION not in sys.modules:  # a broker without links does not need aio-pika, whose import takes 25 ms
            await asyncio.to_thread(import_module, CONNECTION)
        from .upstream.connection import dial

        vhost = self.spec.key.vhost if endpoint.vhost is None else endpoint.vhost
        user = acting_user(self.node, self.spec)
        return await dial(self.host, endpoint, vhost, name, self.take, user, self.pace.turns)

    async def _remove(self, connection: UpstreamConnection | None = None) -> None:
        """Delete the objects that the link declared upstream; a failure is logged."""
        self._left_upstream = False
        if not self.pace.admission.open:
            self._report("federation_not_removed", "warning", reason=NOT_ALONE)
            return
        with nullcontext() if connection is not None else await self._enter():
            await self._clean_up_in_time(connection)

    async def _clean_up_in_time(self, connection: UpstreamConnection | None) -> None:
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

    # Reporting

    def report_rejected(self, reason: str) -> None:
        """Log a message that this broker rejected; at most one line in REJECTED_S."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._rejected_s + REJECTED_S:
            self._rejected_s = now_s
            self._report("federation_message_rejected", "warning", reason=reason)

    def row(self) -> dict[str, object]:
        return self.status.row(self.spec, self.node.name)

    def _report(self, event: str, level: str, **fields: object) -> None:
        common: dict[str, object] = {"object": str(self), "upstream": self.spec.key.upstream, "uri": self.status.uri}
        common["upstream_object"] = self.spec.key.upstream_name
        self.host.report(event, level, common | fields)

    def _emit_status(self) -> None:
        if self.node.events.has_receivers:
            row = self.row()
            names = ("vhost", "type", "name", "upstream", "upstream_name", "id", "status", "uri", "error")
            self.node.events.emit("warren.federation.link.status", {name: row[name] for name in names})


async def until_one_fails(works: list[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently until one of them ends; cancel the others and raise its exception.

    asyncio.TaskGroup is not used, since it cancels the task that waits for it: before Python 3.11.3 that task counts as
    cancelled from then on, and a later asyncio.timeout in it raises CancelledError in place of TimeoutError.
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
    """Whether the current task has been cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def fail_with(failed: asyncio.Future[LinkError], ended: asyncio.Future[str] | asyncio.Future[LinkError]) -> None:
    """Set the error of an attempt from the future of a channel or connection that has ended."""
    reason = ended.result()
    if not failed.done():
        failed.set_result(LinkError(reason) if isinstance(reason, str) else reason)
