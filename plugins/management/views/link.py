"""The view of a federation link."""

from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, cast

from ..stats.federation_links import Row, link_counters, link_key
from ..stats.rates import Counted
from .stats import RequestStats, optional, required

ALIKE = ("vhost", "type", "upstream", "id", "status", "uri")  # the same in the service's rows
# Fields that RabbitMQ does not have.
MORE = (
    *("policy", "retries", "reconnects", "backlog", "lag_ms", "forwarded", "unconfirmed", "nacked"),
    *("dropped_max_hops", "dropped_seen", "dropped_invalid", "bindings", "degraded"),
    *("upstream_cluster_name", "upstream_vhost"),
)


@required(str, "node", *ALIKE, "timestamp", "changed_at")
@required(int | None, "backlog", "lag_ms")
@optional(str, "exchange", "upstream_exchange", "queue", "upstream_queue", "consumer_tag", "error", "state", "reason")
@optional(str, "since", "next_attempt_at", "policy", "upstream_cluster_name", "upstream_vhost", "local_connection")
@optional(int, "retries", "reconnects", "forwarded", "unconfirmed", "nacked", "bindings")
@optional(int, "dropped_max_hops", "dropped_seen", "dropped_invalid")
class LinkView(TypedDict):
    """A federation link; fields that do not apply are left out."""

    degraded: bool
    local_channel: NotRequired[dict[str, object]]
    message_stats: NotRequired[Counted]


def link_view(stats: RequestStats, row: Row, detailed: bool = False) -> LinkView:
    """Return the fields of a link from the service's row; `detailed` adds its rates even while it is down."""
    kind = str(row["type"])
    item: Any = {
        "node": row["node"],
        kind: row["name"],
        f"upstream_{kind}": row["upstream_name"],
        **{name: row[name] for name in ALIKE},
        "timestamp": clock_time(row["changed_s"]),
        "changed_at": point_in_time(row["changed_s"]),
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
        if stats.enabled:
            channel["message_stats"] = stats.details("link", link_key(row), link_counters(row))
    if detailed:
        item["message_stats"] = stats.details("link", link_key(row), link_counters(row))
    return cast(LinkView, item)


def local_channel(row: Row) -> dict[str, object]:
    """Return the channel with which the link publishes here, as RabbitMQ shows it."""
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
    """Return the local time in RabbitMQ's form, with no leading zero in the hour."""
    at = datetime.fromtimestamp(seconds(timestamp_s))
    return f"{at:%Y-%m-%d} {at.hour}:{at:%M:%S}"


def point_in_time(timestamp_s: object) -> str:
    return datetime.fromtimestamp(seconds(timestamp_s), UTC).isoformat(timespec="milliseconds")


def seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
