"""A fake of the federation service for the HTTP API: prepared rows of links, and the restarts that were asked for."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from warren.broker.plugin_host.host import Host, Service
from warren.plugins.management.stats.federation_links import Row

CHANGED_S = datetime(2026, 11, 22, 5, 7, 9).timestamp()


def row(**changes: object) -> Row:
    """A running link with some values changed."""
    return {
        "vhost": "/",
        "type": "exchange",
        "name": "x",
        "upstream": "origin",
        "upstream_name": "x",
        "consumer_tag": "",
        "id": "0badcafe",
        "node": "rabbit@here",
        "policy": "p",
        "status": "running",
        "error": "",
        "uri": "amqp://origin:5672/%2f",
        "upstream_cluster_name": "origin",
        "upstream_vhost": "/",
        "local_connection": "link 1",
        "changed_s": CHANGED_S,
        "state": "flowing",
        "reason": "messages are wanted",
        "since_s": 1000.5,
        "retries": 0,
        "reconnects": 2,
        "next_attempt_s": None,
        "backlog": 7,
        "lag_ms": None,
        "forwarded": 12,
        "confirmed": 10,
        "unconfirmed": 2,
        "dropped_max_hops": 1,
        "dropped_seen": 0,
        "dropped_invalid": 4,
        "degraded": False,
        "nacked": 0,
        "bindings": 3,
    } | changes


class FakeFederation(Service):
    """The federation service, as far as the API and metrics use it."""

    def __init__(self, *rows: Row, refused: int = 0) -> None:
        self.rows = list(rows)
        self.refused_count = refused
        self.restarted: list[str] = []

    async def start(self, host: Host) -> None: ...

    async def stop(self) -> None: ...

    def count_by_status(self) -> Counter[str]:
        return Counter(str(row["status"]) for row in self.rows)

    def each_status(self) -> Iterator[Row]:
        return iter(self.rows)

    def restart(self, id: str) -> bool:
        self.restarted.append(id)
        return any(row["id"] == id for row in self.rows)
