"""The presences at other sites that a federated presence exchange knows; pure.

A presence is a key at a site; a site is a virtual host of a cluster. A presence is known by one or more paths: the
sites that its notices passed, the last one first and its own site at the end. Each path has holders, and is removed
with its last holder. A holder is a binding that a downstream link made, or a source: the upstream exchange of a local
link. No path passes a site twice, and the removal of a path is passed on along the path, so two sites cannot keep up a
presence for one another.

A source's notices are reconciled with its summary: between `begin_summary` and `end_summary` it announces all presences
that it has, and those that it omits are removed.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from warren.broker.amqp.federation_headers import BOUND_FROM
from warren.broker.plugin import Binding, Exchange, Table, UpstreamExchange, Value

PATHS_LIMIT = 16  # paths of one presence; further ones are ignored, because the presence is known without them
SITES_LIMIT = 100  # of one path
SOURCES_LIMIT = 1_000  # sources that are remembered as complete; if there are more, all count as complete
ANNOUNCED_LIMIT = 64 << 20  # bytes of the paths that the sources of one exchange may announce
ENTRY_BYTES, SITE_BYTES = 600, 200  # bytes of a path and of each site in it, beside the text
TEXT_LIMIT = 1024  # characters of a name from another site

Site = tuple[str, str]  # cluster name and virtual host
Path = tuple[Site, ...]


class Presence(NamedTuple):
    cluster_name: str
    vhost: str
    key: str


Holder = Binding | UpstreamExchange
Entry = tuple[Presence, Path]  # an announcement of a source


class Change(NamedTuple):
    """A path of a presence was added (`bind`) or removed (`unbind`).

    `whole` is true if the presence was added or removed with it. `exchange` is the exchange at its site to which the
    presence is bound.
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
    """The presences of other sites that one exchange knows.

    Entries that a source no longer announces are removed in steps by `remove_some`, because they may be very many.
    """

    __slots__ = ("_known", "_announced", "_announced_bytes", "_unconfirmed", "_complete", "_removals")

    def __init__(self) -> None:
        self._known: dict[Presence, RemotePresence] = {}
        self._announced: dict[UpstreamExchange, dict[Entry, int]] = {}  # with the size of each
        self._announced_bytes = 0  # including the entries of the other two
        self._unconfirmed: dict[UpstreamExchange, dict[Entry, int]] = {}  # the entries before a summary, while it lasts
        self._complete: set[UpstreamExchange] = set()
        # No longer announced, and not removed yet, with the order from the end. Both are freed entry by entry.
        self._removals: deque[tuple[UpstreamExchange, dict[Entry, int], list[Entry]]] = deque()

    def __contains__(self, presence: Presence) -> bool:
        return presence in self._known

    def all(self) -> Iterator[Change]:
        """Yield all paths of the presences that are known now, as changes by which they were added.

        A presence that is removed before its turn is left out.
        """
        presences = list(self._known)

        def changes() -> Iterator[Change]:
            for presence in presences:
                if (known := self._known.get(presence)) is not None:
                    for path in list(known.paths):
                        yield Change("bind", presence, known.exchange, path, False)

        return changes()

    def release_all(self) -> Iterator[int]:
        """Free everything in short steps, after the exchange was deleted."""
        removed = [entries for _, entries, _ in self._removals]
        mappings: list[dict[Any, Any]] = [*self._announced.values(), *self._unconfirmed.values(), *removed, self._known]
        for mapping in mappings:
            while mapping:
                mapping.popitem()
                yield 1

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

    def announce(self, source: UpstreamExchange, presence: Presence, exchange: str, path: Path) -> Change | None:
        """Add a path that a source has announced. Returns the change, if any."""
        announced = self._announced.setdefault(source, {})
        entry = (presence, path)
        if entry not in announced and (size := self._take(source, entry)) > 0:
            announced[entry] = size
        elif entry not in announced:
            size = ENTRY_BYTES + len(presence.key) + len(exchange)
            size += sum([SITE_BYTES + len(cluster_name) + len(vhost) for cluster_name, vhost in path])
            if self._announced_bytes + size > ANNOUNCED_LIMIT:
                return None
            self._announced_bytes += size
            announced[entry] = size
        return self.hold(presence, exchange, path, source)  # even an announced one, which may have exceeded PATHS_LIMIT

    def withdraw(self, source: UpstreamExchange, presence: Presence, path: Path) -> Change | None:
        """Remove a path that a source has withdrawn. Returns the change, if any."""
        entry = (presence, path)
        self._announced_bytes -= self._announced.get(source, {}).pop(entry, 0) + self._take(source, entry)
        return self.release(presence, path, source)

    def begin_summary(self, source: UpstreamExchange) -> None:
        """Begin a summary: the source announces all presences that it has."""
        announced = self._announced.pop(source, {})
        if unconfirmed := self._unconfirmed.get(source):  # the last summary did not end
            unconfirmed.update(announced)
        else:
            self._unconfirmed[source] = announced

    def end_summary(self, source: UpstreamExchange) -> None:
        """Mark all entries for removal that the summary did not announce. Without a beginning it removes nothing."""
        unconfirmed = self._unconfirmed.pop(source, None)
        if unconfirmed is None:
            return
        self._set_complete(source)
        self._leave(source, unconfirmed)

    def detach(self, source: UpstreamExchange) -> None:
        """Mark all entries of the source for removal."""
        self._set_complete(source)
        self._leave(source, self._unconfirmed.pop(source, {}))
        self._leave(source, self._announced.pop(source, {}))

    def _leave(self, source: UpstreamExchange, entries: dict[Entry, int]) -> None:
        if entries:
            self._removals.append((source, entries, list(reversed(entries))))

    def _take(self, source: UpstreamExchange, entry: Entry) -> int:
        """Take an entry that is unconfirmed or to be removed; return its size, or 0 if there is none."""
        size = self._unconfirmed.get(source, {}).pop(entry, 0)
        for owner, entries, _ in self._removals:
            if owner == source:
                size = size or entries.pop(entry, 0)
        return size

    @property
    def removes(self) -> bool:
        """True if `remove_some` has more to remove."""
        return len(self._removals) > 0

    def remove_some(self, count: int) -> list[Change]:
        """Remove `count` entries that their sources no longer announce. Returns the changes."""
        changes = []
        while self._removals and count > 0:
            source, entries, order = self._removals[0]
            if not order:
                self._removals.popleft()
                continue
            count -= 1
            entry = order.pop()
            size = entries.pop(entry, 0)
            if size:
                self._announced_bytes -= size
                changes.append(self.release(*entry, source))
        return [change for change in changes if change is not None]

    def _set_complete(self, source: UpstreamExchange) -> None:
        if len(self._complete) < SOURCES_LIMIT:
            self._complete.add(source)

    def may_repeat(self, source: UpstreamExchange) -> bool:
        """Return whether the source's present summary may announce presences from before the start of this broker."""
        return source in self._unconfirmed and not self.complete(source)

    def complete(self, source: UpstreamExchange) -> bool:
        """Return whether the source has sent a summary, or was detached, since the start of this broker."""
        return source in self._complete or len(self._complete) >= SOURCES_LIMIT


def decode_path(value: Value | None) -> Path:
    """Return the path in x-bound-from or x-received-from; empty if it is missing or malformed.

    Raises SyntaxFault for malformed bytes that were not checked before.
    """
    if value is None or value[0] != "A" or not isinstance(value[1], list) or len(value[1]) > SITES_LIMIT:
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
    """Return presence, exchange and path of a binding by a link of another site, or None for other bindings.

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
