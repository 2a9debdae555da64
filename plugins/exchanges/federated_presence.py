"""Presences at other sites, as a federated presence exchange knows them; pure.

A presence is a key at a site, which is a virtual host of a cluster. It is known by ways: the sites that the news of it
has passed, the last one first, and so the site itself at the end. In a graph of brokers there may be several to one
presence. Each is held on its own by whoever has told of it, and goes when nobody holds it: a binding that a downstream
link has made, or a source, which is the exchange at the other end of a link from here. As no way passes a site twice,
and each goes with the news that it goes, two sites can not keep up a presence for one another.

What a source brings is checked against its summary: between `begin` and `end` it tells all that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warren.broker.plugin import Binding, Exchange, Table, Value

BOUND_FROM, RECEIVED_FROM = "x-bound-from", "x-received-from"
WAYS_LIMIT = 16  # to one presence; what comes by more is left out: whoever brings it is not the only one
SOURCE_LIMIT = 100_000  # presences, by all their ways, that one source may bring; about 50 MB
TEXT_LIMIT = 1024  # characters of any name that another site tells

Site = tuple[str, str]  # cluster name and virtual host
Way = tuple[Site, ...]


class Source(NamedTuple):
    """An exchange upstream."""

    cluster_name: str
    vhost: str
    exchange: str


class Presence(NamedTuple):
    cluster_name: str
    vhost: str
    key: str


Holder = Binding | Source


class Change(NamedTuple):
    """A way to a presence has appeared (`bind`) or is gone; `whole`: and the presence with it. `exchange` is where it
    is present at its site."""

    action: str
    presence: Presence
    exchange: str
    way: Way
    whole: bool


class Known:
    """Of one presence."""

    __slots__ = ("exchange", "ways")

    def __init__(self, exchange: str) -> None:
        self.exchange = exchange
        self.ways: dict[Way, set[Holder]] = {}


class Elsewhere:
    __slots__ = ("_known", "_brought", "_unconfirmed", "_complete")

    def __init__(self) -> None:
        self._known: dict[Presence, Known] = {}
        self._brought: dict[Source, dict[tuple[Presence, Way], None]] = {}
        self._unconfirmed: dict[Source, dict[tuple[Presence, Way], None]] = {}  # while a summary is under way
        self._complete: set[Source] = set()

    def __contains__(self, presence: Presence) -> bool:
        return presence in self._known

    def all(self) -> Iterator[Change]:
        """What there is, by all ways, as if it had just appeared."""
        for presence, known in self._known.items():
            for way in known.ways:
                yield Change("bind", presence, known.exchange, way, False)

    def ways(self, presence: Presence) -> dict[Way, int]:
        """By which it is known, and how many hold each."""
        known = self._known.get(presence)
        return {way: len(holders) for way, holders in known.ways.items()} if known is not None else {}

    def hold(self, presence: Presence, exchange: str, way: Way, holder: Holder) -> Change | None:
        """None where the way was there, or there are too many."""
        known = self._known.get(presence)
        if known is None:
            known = self._known[presence] = Known(exchange)
        holders = known.ways.get(way)
        if holders is not None:
            holders.add(holder)
            return None
        if len(known.ways) >= WAYS_LIMIT:
            return None
        known.ways[way] = {holder}
        return Change("bind", presence, known.exchange, way, len(known.ways) == 1)

    def release(self, presence: Presence, way: Way, holder: Holder) -> Change | None:
        """None where others hold it too, or it was not held by this one."""
        known = self._known.get(presence)
        holders = known.ways.get(way) if known is not None else None
        if known is None or holders is None or holder not in holders:
            return None
        holders.remove(holder)
        if holders:
            return None
        del known.ways[way]
        if not known.ways:
            del self._known[presence]
        return Change("unbind", presence, known.exchange, way, not known.ways)

    # What sources bring

    def bring(self, source: Source, presence: Presence, exchange: str, way: Way) -> Change | None:
        brought = self._brought.setdefault(source, {})
        place = (presence, way)
        if place in brought:
            self._unconfirmed.get(source, {}).pop(place, None)
        elif len(brought) >= SOURCE_LIMIT:
            return None
        brought[place] = None
        return self.hold(presence, exchange, way, source)  # what is held; or there were too many ways, and are no more

    def take_back(self, source: Source, presence: Presence, way: Way) -> Change | None:
        place = (presence, way)
        self._unconfirmed.get(source, {}).pop(place, None)
        self._brought.get(source, {}).pop(place, None)
        return self.release(presence, way, source)

    def begin(self, source: Source) -> None:
        """All that the source has follows."""
        self._unconfirmed[source] = dict(self._brought.get(source, {}))

    def end(self, source: Source) -> list[Change]:
        """That was all: what has vanished unheard of is gone. Without its beginning a summary says nothing."""
        unconfirmed = self._unconfirmed.pop(source, None)
        if unconfirmed is None:
            return []
        self._complete.add(source)
        changes = [self.take_back(source, presence, way) for presence, way in unconfirmed]
        return [change for change in changes if change is not None]

    def parted(self, source: Source) -> list[Change]:
        """It brings nothing any more; should it ever do again, all of that is new."""
        self._unconfirmed.pop(source, None)
        self._complete.add(source)
        changes = [self.take_back(source, presence, way) for presence, way in list(self._brought.get(source, {}))]
        self._brought.pop(source, None)
        return [change for change in changes if change is not None]

    def recalls(self, source: Source) -> bool:
        """Whether what its summary tells now may have been known before this broker was started."""
        return source in self._unconfirmed and source not in self._complete

    def complete(self, source: Source) -> bool:
        """Whether all that it has was told since this broker was started."""
        return source in self._complete


def sites(value: Value | None) -> Way:
    """Of x-bound-from or x-received-from; empty where it is missing or malformed. Raises SyntaxFault for bytes that
    nobody has checked."""
    if value is None or value[0] != "A" or not isinstance(value[1], list):
        return ()
    way = []
    for kind, entry in value[1]:
        if kind != "F" or not isinstance(entry, Table):
            return ()
        cluster_name, vhost = entry.text("cluster-name"), entry.text("vhost")
        if cluster_name is None or vhost is None or max(len(cluster_name), len(vhost)) > TEXT_LIMIT:
            return ()
        way.append((cluster_name, vhost))
    return tuple(way)


def passed(way: Way) -> Value:
    """It as x-received-from, so that federation counts the hops and sees where the news was."""
    return ("A", [("F", Table.of({"cluster-name": cluster_name, "vhost": vhost})) for cluster_name, vhost in way])


def brought_by(binding: Binding) -> tuple[Presence, str, Way] | None:
    """The presence that a link from another site has brought here as a binding, with the exchange and the way; None of
    any other binding. Links bind exchanges that nobody can publish to, with arguments that say where they come from."""
    destination = binding.destination
    if not isinstance(destination, Exchange) or not destination.internal:
        return None
    value = binding.arguments.get(BOUND_FROM)
    way = sites(value)
    if not way or value is None or not isinstance(value[1], list):
        return None
    cluster_name, vhost = way[-1]
    text = value[1][-1][1].text("exchange") or ""  # vhost:exchange, and the letter that is in use
    return Presence(cluster_name, vhost, binding.routing_key), text.removeprefix(f"{vhost}:")[:-2], way
