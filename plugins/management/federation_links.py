"""Federation's links, as the service of that name tells them; a broker without the service has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from warren.broker.plugin import Host

from .stats.history import Key, Sample

SERVICE = "federation"
Row = dict[str, object]


@runtime_checkable
class Links(Protocol):
    """What is asked of the service. Its rows are plain values, without credentials."""

    def status(self) -> list[Row]: ...

    def restart(self, id: str) -> bool:
        """Whether there is such a link; it is stopped and started cleanly, beside the loop's next turns."""


def links_of(host: Host) -> Links | None:
    service = host.services.get(SERVICE)
    return service if isinstance(service, Links) else None


def samples(host: Host) -> Iterator[Sample]:
    """Of all links. Which object it is makes no difference: a link that was restarted is the same."""
    links = links_of(host)
    for row in links.status() if links is not None else ():
        yield "link", link_key(row), None, tuple(link_counters(row).values())


def link_key(row: Row) -> Key:
    return (str(row["id"]),)


def link_counters(row: Row) -> dict[str, int]:
    """The `message_stats` of a link: what it published here, and what of that was confirmed."""
    return {name: whole(row.get(key)) for name, key in (("publish", "forwarded"), ("confirm", "confirmed"))}


def whole(value: object) -> int:
    return value if isinstance(value, int) else 0
