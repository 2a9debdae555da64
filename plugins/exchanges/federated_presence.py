"""The presences at other sites that a federated presence exchange knows; pure.

A presence is a key at a site; a site is a virtual host of a cluster. A presence is known by one or more paths: the
sites that its notices passed, the last one first and its own site at the end. Each path has holders, and is removed
with its last holder. A holder is a binding that a downstream link made, or a source: the upstream exchange of a local
link. No path passes a site twice, and the removal of a path is passed on along the path, so two sites cannot keep up a
presence for one another.

A source's notices are reconciled with its summary: between `begin_summary` and `end_summary` it announces all presences
that it has, and those that it omits are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warren.broker.amqp.federation_headers import BOUND_FROM
from warren.broker.plugin import Binding, Exchange, Table, Value

PATHS_LIMIT = 16  # paths of one presence; further ones are ignored, as the presence is known without them
SOURCE_LIMIT = 100_000  # paths of presences that one source may announce; about 50 MB
TEXT_LIMIT = 1024  # characters of a name from another site

Site = tuple[str, str]  # cluster name and virtual host
Path = tuple[Site, ...]


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
    """A path of a presence was added (`bind`) or removed (`unbind`).

    `whole`: and the presence with it. `exchange` is the exchange at its site to which the presence is bound.
    """

    action: str
    presence: Presence
    exchange: str
    path: Path
    whole: bool


class RemotePresence:
    """The exchange of one presence, and its paths with their holders."""

    __slots__ = ("exchange", "paths")

    def __init__(self, exchange: str) -> None:
        self.exchange = exchange
        self.paths: dict[Path, set[Holder]] = {}


class RemotePresences:
    """The presences of other sites that one exchange knows."""

    __slots__ = ("_known", "_announced", "_unconfirmed", "_complete")

    def __init__(self) -> None:
        self._known: dict[Presence, RemotePresence] = {}
        self._announced: dict[Source, dict[tuple[Presence, Path], None]] = {}
        self._unconfirmed: dict[Source, dict[tuple[Presence, Path], None]] = {}  # during a summary
        self._complete: set[Source] = set()

    def __contains__(self, presence: Presence) -> bool:
        return presence in self._known

    def all(self) -> Iterator[Change]:
        """Yield all paths of all presences, as changes by which they were added."""
        for presence, known in self._known.items():
            for path in known.paths:
                yield Change("bind", presence, known.exchange, path, False)

    def paths(self, presence: Presence) -> dict[Path, int]:
        """Return the paths of a presence, and how many holders each has."""
        known = self._known.get(presence)
        return {path: len(holders) for path, holders in known.paths.items()} if known is not None else {}

    def hold(self, presence: Presence, exchange: str, path: Path, holder: Holder) -> Change | None:
        """Add a holder of a path. Returns None if the path was known, or if there are too many."""
        known = self._known.get(presence)
        if known is None:
            known = self._known[presence] = RemotePresence(exchange)
        holders = known.paths.get(path)
        if holders is not None:
            holders.add(holder)
            return None
        if len(known.paths) >= PATHS_LIMIT:
            return None
        known.paths[path] = {holder}
        return Change("bind", presence, known.exchange, path, len(known.paths) == 1)

    def release(self, presence: Presence, path: Path, holder: Holder) -> Change | None:
        """Remove a holder of a path. Returns None if the path has other holders, or did not have this one."""
        known = self._known.get(presence)
        holders = known.paths.get(path) if known is not None else None
        if known is None or holders is None or holder not in holders:
            return None
        holders.remove(holder)
        if holders:
            return None
        del known.paths[path]
        if not known.paths:
            del self._known[presence]
        return Change("unbind", presence, known.exchange, path, not known.paths)

    # Announcements of sources

    def announce(self, source: Source, presence: Presence, exchange: str, path: Path) -> Change | None:
        """Add a path that a source has announced. Returns the change, if any."""
        announced = self._announced.setdefault(source, {})
        entry = (presence, path)
        if entry in announced:
            self._unconfirmed.get(source, {}).pop(entry, None)
        elif len(announced) >= SOURCE_LIMIT:
            return None
        announced[entry] = None
        return self.hold(presence, exchange, path, source)  # even if announced before: it may have exceeded PATHS_LIMIT

    def withdraw(self, source: Source, presence: Presence, path: Path) -> Change | None:
        """Remove a path that a source has withdrawn. Returns the change, if any."""
        entry = (presence, path)
        self._unconfirmed.get(source, {}).pop(entry, None)
        self._announced.get(source, {}).pop(entry, None)
        return self.release(presence, path, source)

    def begin_summary(self, source: Source) -> None:
        """Begin a summary: the source announces all presences that it has."""
        self._unconfirmed[source] = dict(self._announced.get(source, {}))

    def end_summary(self, source: Source) -> list[Change]:
        """Remove what the summary did not announce; without a beginning it removes nothing. Returns the changes."""
        unconfirmed = self._unconfirmed.pop(source, None)
        if unconfirmed is None:
            return []
        self._complete.add(source)
        changes = [self.withdraw(source, presence, path) for presence, path in unconfirmed]
        return [change for change in changes if change is not None]

    def detach(self, source: Source) -> list[Change]:
        """Remove everything that the source has announced. Returns the changes."""
        self._unconfirmed.pop(source, None)
        self._complete.add(source)
        changes = [self.withdraw(source, presence, path) for presence, path in list(self._announced.get(source, {}))]
        self._announced.pop(source, None)
        return [change for change in changes if change is not None]

    def may_repeat(self, source: Source) -> bool:
        """Whether the source's present summary may announce what was known before this broker was started."""
        return source in self._unconfirmed and source not in self._complete

    def complete(self, source: Source) -> bool:
        """Whether the source has sent a summary, or was detached, since this broker was started."""
        return source in self._complete


def decode_path(value: Value | None) -> Path:
    """Return the path in x-bound-from or x-received-from; empty if it is missing or malformed.

    Raises SyntaxFault for malformed bytes that were not checked before.
    """
    if value is None or value[0] != "A" or not isinstance(value[1], list):
        return ()
    path = []
    for kind, entry in value[1]:
        if kind != "F" or not isinstance(entry, Table):
            return ()
        cluster_name, vhost = entry.text("cluster-name"), entry.text("vhost")
        if cluster_name is None or vhost is None or max(len(cluster_name), len(vhost)) > TEXT_LIMIT:
            return ()
        path.append((cluster_name, vhost))
    return tuple(path)


def encode_path(path: Path) -> Value:
    """Return a path as x-received-from, by which federation counts hops and finds the sites that a notice passed."""
    return ("A", [("F", Table.of({"cluster-name": cluster_name, "vhost": vhost})) for cluster_name, vhost in path])


def presence_of_binding(binding: Binding) -> tuple[Presence, str, Path] | None:
    """Return presence, exchange and path if the binding was made by a link of another site, else None.

    Such a binding is that of an internal exchange, and has the path in the argument x-bound-from.
    """
    destination = binding.destination
    if not isinstance(destination, Exchange) or not destination.internal:
        return None
    value = binding.arguments.get(BOUND_FROM)
    path = decode_path(value)
    if not path or value is None or not isinstance(value[1], list):
        return None
    cluster_name, vhost = path[-1]
    text = value[1][-1][1].text("exchange") or ""  # vhost:exchange, a space and the generation in use
    return Presence(cluster_name, vhost, binding.routing_key), text.removeprefix(f"{vhost}:")[:-2], path
