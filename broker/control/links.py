"""What is told of a link of federation: RabbitMQ's columns, in its order."""

from datetime import datetime

COLUMNS = (
    *("consumer_tag", "error", "exchange", "id", "last_changed", "local_connection", "queue", "status", "type"),
    *("upstream", "upstream_exchange", "upstream_queue", "uri", "vhost"),
)


def local_time(timestamp_s: float) -> str:
    """As clocks here show it."""
    return f"{datetime.fromtimestamp(timestamp_s):%Y-%m-%d %H:%M:%S}"
