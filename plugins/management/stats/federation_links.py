"""Access to the federation service; a broker without it has no links."""

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from warren.broker.plugin import Host

from .history import Key, Sample

SERVICE = "federation"
Row = dict[str, object]


@runtime_checkable
class Links(Protocol):
    """The federation service. Its rows are plain values without credentials."""

    @property
    def refused_count(self) -> int:
        """The number of links that are not started because the limit is reached."""

    def count_by_status(self) -> Mapping[str, int]:
        """Return the number of links of each status that links have."""

    def each_status(self) -> Iterator[Row]:
        """Yield the status of each link, in no order; links may change meanwhile."""

    def restart(self, id: str) -> bool:
        """Restart a link in later turns of the loop; return False if it does not exist. Raises Invalid."""


def links_of(host: Host) -> Links | None:
    service = host.services.get(SERVICE)
    return service if isinstance(service, Links) else None


def samples(host: Host) -> Iterator[Sample]:
    """Yield the samples of all links; a restarted link keeps its samples."""
    links = links_of(host)
    for row in links.each_status() if links is not None else ():
        yield "link", link_key(row), None, tuple(link_counters(row).values())


def link_key(row: Row) -> Key:
    return (str(row["id"]),)


def link_counters(row: Row) -> dict[str, int]:
    """Return the `message_stats` of a link: its publishes to this broker and their confirms."""
    return {name: as_count(row.get(key)) for name, key in (("publish", "forwarded"), ("confirm", "confirmed"))}


def as_count(value: object) -> int:
    return value if isinstance(value, int) else 0
