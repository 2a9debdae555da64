"""Metrics of federation links, if the federation service runs."""

from collections.abc import Iterable, Iterator
from functools import partial

from ..management.stats.federation_links import Row, links_of
from . import families
from .families import WARREN, Family, FamilyGroup, counters, gauges, text
from .scope import Scope

LABELS = ("vhost", "type", "name", "upstream", "upstream_name", "id")
DROPPED = "dropped_"  # prefix of the reasons in the service's rows


def rows(scope: Scope) -> Iterator[Row]:
    """Yield the status of each link."""
    links = links_of(scope.host)
    return links.each_status() if links is not None else iter(())


def texts(link: Row) -> tuple[str, ...]:
    return tuple(text(str(link.get(name, ""))) for name in LABELS)


def number(link: Row, key: str) -> float | None:
    """Return a number of a link, or None."""
    value = link.get(key)
    return value if isinstance(value, (int, float)) else None


def by_status(scope: Scope) -> Iterable[families.Row]:
    """Count the links by status; statuses without links are left out, as in RabbitMQ."""
    links = links_of(scope.host)
    for status, count in list(links.count_by_status().items()) if links is not None else ():
        yield (text(status),), (count,)


def refused(scope: Scope) -> Iterable[families.Row]:
    links = links_of(scope.host)
    if links is not None:
        yield (), (links.refused_count,)


def running(scope: Scope) -> Iterable[families.Row]:
    for link in rows(scope):
        yield texts(link), (link.get("status") == "running",)


def dropped(scope: Scope) -> Iterable[families.Row]:
    for link in rows(scope):
        for key in link:
            if key.startswith(DROPPED):
                yield (*texts(link), text(key.removeprefix(DROPPED))), (number(link, key) or 0,)


def of_each(key: str, scale: float, scope: Scope) -> Iterable[families.Row]:
    """Return the values of the links that have one."""
    for link in rows(scope):
        value = number(link, key)
        if value is not None:
            yield texts(link), (value * scale,)


def single(families: tuple[Family, ...], key: str, scale: float = 1) -> FamilyGroup:
    """Return the group of a single family, with the value of this key of each link."""
    return FamilyGroup(families[0].name, families, partial(of_each, key, scale), LABELS, WARREN)


LINKS = gauges(federation_links="Number of federation links")
REFUSED = gauges(federation_links_refused="Links that do not start as the limit is reached")
UP = gauges(federation_link_up="1 while a federation link runs")
DROPS = counters(federation_link_dropped="Messages that a link dropped, by reason")
GROUPS: tuple[FamilyGroup, ...] = (
    FamilyGroup("federation_links", LINKS, by_status, ("status",)),
    FamilyGroup("federation_links_refused", REFUSED, refused, (), WARREN),
    FamilyGroup("federation_link_up", UP, running, LABELS, WARREN),
    FamilyGroup("federation_link_dropped", DROPS, dropped, (*LABELS, "reason"), WARREN),
    single(counters(federation_link_forwarded="Messages that a link has published here"), "forwarded"),
    single(counters(federation_link_confirmed="Messages of a link that were confirmed"), "confirmed"),
    single(counters(federation_link_nacked="Messages of a link that were refused"), "nacked"),
    single(counters(federation_link_reconnects="Failures of a running link"), "reconnects"),
    single(gauges(federation_link_retries="Attempts to connect since a link last ran"), "retries"),
    single(gauges(federation_link_unconfirmed="Messages of a link not confirmed yet"), "unconfirmed"),
    single(gauges(federation_link_backlog="Messages that wait for a link upstream"), "backlog"),
    single(gauges(federation_link_lag_seconds="Age of the message that a link has forwarded last"), "lag_ms", 0.001),
)
