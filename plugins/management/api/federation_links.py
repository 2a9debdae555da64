"""Links of federation: where they lead, and how they are (spec/federation.md 10). Without the service all is 404."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ..auth import MONITOR, POLICIES
from ..federation_links import Links, Row, link_counters, link_key, links_of
from ..pagination import Item, Listing
from ..request import Request
from ..responses import Response, done, missing
from ..router import Route
from ..views.stats import StatsView

UP = ("running", "starting")
ALIKE = ("vhost", "type", "upstream", "id", "status", "uri")  # what is told as the service tells it
# What RabbitMQ does not tell.
MORE = (
    *("policy", "retries", "reconnects", "backlog", "lag_ms", "forwarded", "unconfirmed", "nacked"),
    *("dropped_max_hops", "dropped_seen", "dropped_invalid", "bindings", "degraded"),
)


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
    figures = StatsView(request)
    return Listing(links, lambda row: described(figures, row), lambda row: str(row["name"]))


def described(figures: StatsView, row: Row) -> Item:
    """A row of the service with RabbitMQ's names; what does not hold of a link is left out."""
    kind = str(row["type"])
    item: Item = {
        "node": row["node"],
        kind: row["name"],
        f"upstream_{kind}": row["upstream_name"],
        **{name: row[name] for name in ALIKE},
        "timestamp": clock_time(row["changed_s"]),
        **{name: row[name] for name in MORE},
    }
    if kind == "queue":
        item["consumer_tag"] = row["consumer_tag"]
    if row["error"]:
        item["error"] = row["error"]
    if row["next_attempt_s"] is not None:
        item["next_attempt_at"] = point_in_time(row["next_attempt_s"])
    if row["state"]:
        item |= {"state": row["state"], "reason": row["reason"], "since": point_in_time(row["since_s"])}
    if row["status"] == "running":
        item["local_connection"] = row["local_connection"]
        channel = item["local_channel"] = local_channel(row)
        if figures.told:
            channel["message_stats"] = figures.details("link", link_key(row), link_counters(row))
    return item


def local_channel(row: Row) -> Item:
    """The channel by which the link publishes here, as RabbitMQ shows it."""
    name = row["local_connection"]
    return {
        "acks_uncommitted": 0,
        "confirm": True,
        "connection_details": {"name": name, "peer_host": "undefined", "peer_port": "undefined"},
        "consumer_count": 0,
        "messages_unacknowledged": 0,
        "messages_uncommitted": 0,
        "messages_unconfirmed": row["unconfirmed"],
        "name": f"{name} (1)",
        "node": row["node"],
        "number": 1,
        "prefetch_count": 0,
        "state": "running",
        "transactional": False,
        "user": "none",
        "user_who_performed_action": "none",
        "vhost": row["vhost"],
    }


def clock_time(timestamp_s: object) -> str:
    """As clocks here show it, in RabbitMQ's form: the hour has no zero in front."""
    at = datetime.fromtimestamp(seconds(timestamp_s))
    return f"{at:%Y-%m-%d} {at.hour}:{at:%M:%S}"


def point_in_time(timestamp_s: object) -> str:
    return datetime.fromtimestamp(seconds(timestamp_s), UTC).isoformat(timespec="milliseconds")


def seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


ROUTES = (
    Route("GET", "/federation-links", MONITOR, list_links),
    Route("GET", "/federation-links/{vhost}", MONITOR, list_links),
    Route("GET", "/federation-links/{vhost}/{list}", MONITOR, no_list),
    Route("GET", "/federation-links/state/down", MONITOR, list_down),
    Route("GET", "/federation-links/{vhost}/state/down", MONITOR, list_down),
    Route("DELETE", "/federation-links/vhost/{vhost}/{id}/{node}/restart", POLICIES, restart),
)
