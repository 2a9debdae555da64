"""Links of federation: where they lead, and how they are. Without the service all is 404."""

from __future__ import annotations

from collections.abc import Iterable

from ...http.auth import MONITOR, POLICIES
from ...http.responses import Response, done, missing
from ..federation_links import Links, Row, links_of
from ..pagination import Listing
from ..request import Request
from ..router import Route
from ..views.link import link_view
from ..views.stats import StatsView

UP = ("running", "starting")


def list_links(request: Request) -> Listing[Row]:
    """Links of federation in the virtual hosts that the user sees."""
    return listed(request, rows(request))


def list_down(request: Request) -> Listing[Row]:
    """Those of them that neither run nor start."""
    return listed(request, (row for row in rows(request) if row["status"] not in UP))


def no_list(request: Request) -> Response:
    """Refuse what is no list of links, as RabbitMQ does: 400 without a word."""
    return Response(400)


def restart(request: Request) -> Response:
    """Stop a link and start it again; what waits for it upstream is kept."""
    id = request.path["id"]
    known = any(row["id"] == id for row in rows(request))
    if not known or request.path["node"] != request.node.name or not the_links(request).restart(id):
        raise missing()
    return done()


def the_links(request: Request) -> Links:
    """Raises Refusal (404) where nothing is federated."""
    links = links_of(request.host)
    if links is None:
        raise missing()
    return links


def rows(request: Request) -> list[Row]:
    """Of the virtual hosts that the request is about. Raises Refusal (404)."""
    told = the_links(request).status()
    names = {vhost.name for vhost in request.vhosts()}
    return sorted((row for row in told if row["vhost"] in names), key=place)


def place(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("vhost", "type", "name", "upstream", "upstream_name"))


def listed(request: Request, links: Iterable[Row]) -> Listing[Row]:
    stats = StatsView(request)
    return Listing(links, lambda row: link_view(stats, row), lambda row: str(row["name"]))


ROUTES = (
    Route("GET", "/federation-links", MONITOR, list_links),
    Route("GET", "/federation-links/{vhost}", MONITOR, list_links),
    Route("GET", "/federation-links/{vhost}/{list}", MONITOR, no_list),
    Route("GET", "/federation-links/state/down", MONITOR, list_down),
    Route("GET", "/federation-links/{vhost}/state/down", MONITOR, list_down),
    Route("DELETE", "/federation-links/vhost/{vhost}/{id}/{node}/restart", POLICIES, restart),
)
