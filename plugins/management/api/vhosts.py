"""Routes for virtual hosts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NotRequired, TypedDict, cast

import msgspec

from warren.broker.plugin import Queue, VHost
from warren.broker.session.connection import Connection

from ...http.auth import ADMIN, ANY
from ...http.responses import HTTPError, Response, done, ok, put
from ...http.time_slices import in_slices, when
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import Values, lengths, message_counters, named, vhost_key
from ..stats.history import BYTE_COUNTERS, LENGTHS
from ..stats.rates import Counted
from ..views.stats import RequestStats, with_counters


@dataclass(slots=True)
class Totals:
    """Queue lengths and bytes of connections, closed ones included, by virtual host, and the number of consumers."""

    consumers: int = 0
    lengths: dict[str, Values] = field(default_factory=dict)
    bytes: dict[str, Values] = field(default_factory=dict)


async def totals_of(vhosts: Iterable[VHost], connections: Iterable[Connection]) -> Totals:
    """Return the sums, computed in slices, because there may be many queues."""
    totals = Totals()
    queues: list[Queue] = []
    for vhost in vhosts:
        totals.lengths[vhost.name] = (0, 0, 0)
        totals.bytes[vhost.name] = (vhost.statistics.received_bytes, vhost.statistics.sent_bytes)
        queues += vhost.queues.values()

    async for queue in in_slices(queues):
        totals.lengths[queue.vhost] = plus(totals.lengths[queue.vhost], lengths(queue))
        totals.consumers += len(queue.consumers)
    async for connection in in_slices(connections):
        vhost_of = connection.vhost
        if vhost_of is not None and vhost_of.name in totals.bytes:
            own = (connection.received_bytes, connection.sent_bytes)
            totals.bytes[vhost_of.name] = plus(totals.bytes[vhost_of.name], own)
    return totals


def plus(one: Values, other: Values) -> Values:
    return tuple(left + right for left, right in zip(one, other, strict=True))


class VHostMetadata(TypedDict):
    description: str
    tags: list[str]
    default_queue_type: str


@with_counters(*LENGTHS, *BYTE_COUNTERS)
class VHostView(VHostMetadata):
    """A virtual host."""

    name: str
    metadata: VHostMetadata
    protected_from_deletion: bool
    tracing: bool
    cluster_state: dict[str, str]
    message_stats: NotRequired[Counted]


def vhost_view(node: str, stats: RequestStats, totals: Totals, vhost: VHost) -> VHostView:
    stored = vhost.metadata
    metadata = {
        "description": stored.description,
        "tags": list(stored.tags),
        "default_queue_type": stored.default_queue_type or "classic",
    }
    item: Any = {
        "name": vhost.name,
        **metadata,
        "metadata": metadata,
        "protected_from_deletion": stored.protected,
        "tracing": vhost.firehose is not None,
        "cluster_state": {node: "running"},
    }
    key = vhost_key(vhost)
    if stats.totals:
        item |= stats.details("vhost", key, named(LENGTHS, totals.lengths[vhost.name]))
    if stats.enabled:
        item |= stats.details("vhost", key, named(BYTE_COUNTERS, totals.bytes[vhost.name]))
        statistics = vhost.statistics
        item |= stats.message_stats("vhost", key, message_counters(statistics.publishing, statistics.delivered()))
    return cast(VHostView, item)


class VHostBody(msgspec.Struct):
    """Values left out stay unchanged."""

    description: str | None = None
    tags: str | list[str] | None = None
    tracing: bool | None = None
    default_queue_type: str | None = None


@route("GET", ANY, "/vhosts")
async def list_vhosts(request: Request) -> Listing[VHostView]:
    """List the virtual hosts that the user sees."""
    stats, vhosts = RequestStats(request), request.visible_vhosts()
    totals = await request.wait(totals_of(vhosts, request.host.connections()))
    node = request.node.name
    return Listing(vhosts, lambda vhost: vhost_view(node, stats, totals, vhost), lambda vhost: vhost.name)


@route("GET", ADMIN, "/vhosts/{vhost}")
async def get_vhost(request: Request) -> Response[VHostView]:
    """Return one virtual host."""
    vhost = request.path_vhost()
    totals = await request.wait(totals_of([vhost], request.host.connections()))
    return ok(vhost_view(request.node.name, RequestStats(request), totals, vhost))


@route("PUT", ADMIN, "/vhosts/{name}")
async def put_vhost(request: Request, body: VHostBody) -> Response[None]:
    """Create a virtual host, in which its creator gets all permissions, or change an existing one."""
    node, name = request.node, request.path["name"]
    while node.is_ending(name):  # its objects are known by names
        await request.wait(when(partial(node.when_dropped, name)))
    tags = [tag.strip() for tag in body.tags.split(",")] if isinstance(body.tags, str) else body.tags
    tags = [tag for tag in tags if tag] if tags is not None else None
    with request.acting():
        existed = name in node.vhosts
        if not existed:
            new = (name, body.description or "", tags or (), body.default_queue_type or "")
            node.add_vhost(*new, request.host.check_alarms)
            if not request.caller.is_local:
                node.users.set_permission(request.user.name, name, ".*", ".*", ".*")
        elif (body.description, tags, body.default_queue_type) != (None, None, None):
            node.update_vhost(name, body.description, tags, body.default_queue_type)
        if body.tracing is not None:
            node.set_tracing(name, body.tracing)
    return put(existed)


@route("DELETE", ADMIN, "/vhosts/{vhost}")
def delete_vhost(request: Request) -> Response[None]:
    """Delete a virtual host with everything in it, and close its connections."""
    vhost = request.path_vhost()
    if vhost.metadata.protected:
        text = f"Refused to delete virtual host '{vhost.name}' because it is protected from deletion"
        raise HTTPError(412, "precondition_failed", text)
    request.node.delete_vhost(vhost.name)
    return done()


@route("POST", ADMIN, "/vhosts/{vhost}/start/{node}")
def start_vhost(request: Request) -> Response[None]:
    """Do nothing: RabbitMQ restarts a failed virtual host on a node, and Warren's do not fail."""
    request.check_node()
    return done()


@route("POST", ADMIN, "/vhosts/{vhost}/deletion/protection")
def protect_vhost(request: Request) -> Response[None]:
    """Protect a virtual host from deletion."""
    request.node.update_vhost(request.path_vhost().name, protected=True)
    return done()


@route("DELETE", ADMIN, "/vhosts/{vhost}/deletion/protection")
def unprotect_vhost(request: Request) -> Response[None]:
    """Allow the deletion of a virtual host again."""
    request.node.update_vhost(request.path_vhost().name, protected=False)
    return done()
