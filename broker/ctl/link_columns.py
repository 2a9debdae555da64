"""Columns of `federation_status`: RabbitMQ's in its order, then Warren's own."""

from datetime import datetime

RABBITMQ = (
    *("consumer_tag", "error", "exchange", "id", "last_changed", "local_connection", "queue", "status", "type"),
    *("upstream", "upstream_exchange", "upstream_queue", "uri", "vhost"),
)
# Columns that RabbitMQ does not have.
MORE = (
    *("policy", "state", "reason", "degraded", "backlog", "lag_ms", "retries", "reconnects", "next_attempt_at"),
    *("forwarded", "unconfirmed", "nacked", "dropped_max_hops", "dropped_seen", "dropped_invalid", "bindings"),
)
COLUMNS = (*RABBITMQ, *MORE)


def local_time(timestamp_s: float) -> str:
    """Return the time in the time zone of this machine."""
    return f"{datetime.fromtimestamp(timestamp_s):%Y-%m-%d %H:%M:%S}"
