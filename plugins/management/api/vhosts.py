"""Routes for virtual hosts."""

from functools import partial

import msgspec

from ...http.auth import ADMIN, ANY
from ...http.responses import HTTPError, Response, done, ok, put
from ...http.time_slices import when
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..views.stats import RequestStats
from ..views.vhost import VHostView, totals_of, vhost_view


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
