"""The federation service: starts and ends links.

After each event and every few seconds it reconciles the running links with those that policies require, so that no
order of events leaves a link too many or too few. A pass is a job: a change during a pass leads to another pass.

No more links run than `warren.federation_link_limit`. Links beyond it are refused: they have a status with an error,
and start when others have ended. The virtual hosts share the limit fairly.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from warren.broker.config import Links
from warren.broker.core.jobs.scheduler import Job
from warren.broker.core.metadata.records import (
    Change,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredTopicPermission,
    StoredUser,
    StoredVHost,
)
from warren.broker.core.policies.parameters import CLUSTER_NAME
from warren.broker.core.policies.policy_keys import DEDUPLICATE
from warren.broker.core.vhost.observer import Observer
from warren.broker.plugin import Binding, Child, Exchange, Host, Invalid, Node, Queue, Service

from .binding_set import ExchangeBindings
from .deduplication import DuplicateWindow
from .exchange_link import ExchangeLink
from .link import CLOSE_S, Link, Pace
from .link_spec import (
    OTHER_COST,
    SPEC_COST,
    LinkKey,
    LinkSpec,
    Upstreams,
    asks_for_federation,
    desired_links,
    keeps_upstream_queue,
    links_of,
    read_upstreams,
    scan,
    still_exists,
)
from .link_status import ERROR, RUNNING, LinkStatus
from .queue_link import QueueLink
from .upstream.errors import NOT_ALONE
from .upstream.turns import LINK_COST

ALONE_LOOK_S = 0.2  # between two checks whether another broker may act as this one
SOON_S = 0.05  # delay after an event, in which further events are collected
TICK_S = 5.0
REST = 10  # the least pause until the next pass without an event, in durations of the pass before
LOOK_COST, CHANGE_COST = 10, 600  # in a job: to check a link, and to start or end one
ENDED_IN_A_TURN = 8  # when the service stops
REFUSED_SHOWN = 1_000  # refused links with a status; the others are counted
LIMITED = "warren.federation_link_limit is reached; the link starts when others have ended"
LINK_KEY = ("vhost", "type", "name", "upstream", "upstream_name")  # in the status of a link

NO_LINKS: list[Link] = []
COMPONENTS = ("federation-upstream", "federation-upstream-set", "policy")


class FederationService(Service, Observer):
    """The service "federation". `links` are the links that should run; links that are being ended are in `_ending`.

    As an observer of the node it reconciles after events that may change links, and notifies links.
    """

    _host: Host  # from `start` on

    def __init__(self) -> None:
        self.links: dict[LinkKey, Link] = {}
        self.refused = Refused()
        self._counts: Counter[str] = Counter()  # of links, by virtual host
        self._shares: dict[str, int] = {}  # of the limit, by virtual host
        self._upstreams: dict[str, Upstreams] = {}  # that the last pass read, by virtual host
        self._ending: dict[LinkKey, Link] = {}  # the latest ended link of each key
        self._runs = False
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._pass: Generator[int, None, None] | None = None  # the present one
        self._begun_s = 0.0  # loop time at which it began
        self._limit = math.inf
        self._rechecks = self._recheck_again = False
        self._owner_watch: Child | None = None
        self._windows: dict[tuple[str, str], DuplicateWindow] = {}  # of exchanges that deduplicate, by vhost and name
        self._bindings: dict[tuple[str, str], ExchangeBindings] = {}  # of exchanges with links, by vhost and name
        self._by_target: dict[tuple[str, str, str], list[Link]] = {}  # by kind, vhost and local name
        self._consumed: set[tuple[str, str]] = set()  # queues whose consumers changed in this turn, by vhost and name

    async def start(self, host: Host) -> None:
        self._host = host
        self._runs = True
        self._pace = Pace()
        limit = host.config.federation.link_limit
        self._limit = math.inf if limit is None else limit
        if host.alone is not None:
            if not host.alone():
                self._admit(False)
            self._owner_watch = host.supervisor.keep("federation_owner_watch", partial(self._watch_owner, host.alone))
        host.node.observers.add(self)
        self._tick_in(0.0)

    async def stop(self) -> None:
        """End all links. Upstream queues stay and keep what is published meanwhile."""
        if not self._runs:
            return
        self._runs = False
        if self in self._host.node.observers:
            self._host.node.observers.remove(self)
        if self._owner_watch is not None:
            self._owner_watch.cancel()
        if self._pass is not None:
            self._pass.close()
        if self._timer is not None:
            self._timer.cancel()
        config = self._host.config.federation
        links = {"exchange": list[Link](), "queue": list[Link]()}
        for key, link in self.links.items():
            links[key.kind].append(link)
        self.links.clear()
        self._counts.clear()
        removing = config.graceful_shutdown_cleanup
        await asyncio.gather(
            end_in_batches(links["exchange"], config.exchanges, removing),
            end_in_batches(links["queue"], config.queues, removing),
            all_ended(list(self._ending.values())),
        )

    # For other services

    def status(self) -> list[dict[str, object]]:
        return sorted(self.each_status(), key=lambda row: [str(row[name]) for name in LINK_KEY])

    def each_status(self) -> Iterator[dict[str, object]]:
        """Yield the status of each link, and of the first refused ones, in no order; links may change meanwhile."""
        for link in list(self.links.values()):
            yield link.row()
        for spec, status in list(self.refused.first.values()):
            if self._runs:
                yield status.row(spec, self._host.node.name)

    @property
    def refused_count(self) -> int:
        """The number of links beyond the limit; not all of them have a status."""
        return self.refused.count

    def count_by_status(self) -> Counter[str]:
        """Return the number of links by status, with those beyond the limit."""
        counts = Counter(link.status.status for link in self.links.values())
        if self.refused.count:
            counts[ERROR] += self.refused.count
        return counts

    def restart(self, id_: str) -> bool:
        """Restart the link with this id; its objects upstream stay. Returns False if there is no such link.

        Raises Invalid if the link is refused because of the limit.
        """
        for key, link in self.links.items():
            if key.id == id_ and key in desired_links(self._host.node, [link.target], self._upstreams):
                self._start(link.spec, link.target, self._end(key, removing=False))
                return True
        if any(key.id == id_ for key in self.refused.first):
            raise Invalid(LIMITED)
        return False

    # Suspending

    async def _watch_owner(self, alone: Callable[[], bool]) -> None:
        """Suspend links while another broker may act as this one: none connects, starts or ends.

        The names of their objects upstream are those of that broker's links, too: each would delete what the other one
        has just declared.
        """
        while True:
            if alone() != self._pace.admission.open:
                self._admit(not self._pace.admission.open)
                if not self._pace.admission.open:
                    for link in [*self.links.values(), *self._ending.values()]:
                        await self._pace.turns.wait(LINK_COST)
                        link.suspend()
            await asyncio.sleep(ALONE_LOOK_S)

    def _admit(self, alone: bool) -> None:
        self._pace.admission.open = alone
        if alone:
            self._host.report("federation_resumed", "info", {})
            self._tick_in(0.0)
        else:
            self._host.report("federation_suspended", "warning", {"reason": NOT_ALONE})

    # Reconciling

    def reconcile_soon(self) -> None:
        if not self._soon:
            self._soon = True
            if self._pass is None:
                self._tick_in(SOON_S)

    def _tick_in(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(after_s, self._tick)

    def _tick(self) -> None:
        """Begin a pass, unless the present one has not ended, or links are suspended."""
        self._soon = False
        if self._pass is not None or not self._pace.admission.open:
            self._soon = True
            return
        self._begun_s = asyncio.get_running_loop().time()
        self._pass = self._reconcile(self._host.node)
        self._host.node.scheduler.start("federation", self._pass, self._passed)

    def _passed(self) -> None:
        """Schedule the next pass, so that passes over very many objects take only a share of the loop's time."""
        self._pass = None
        took_s = asyncio.get_running_loop().time() - self._begun_s
        self._tick_in(max(SOON_S, took_s) if self._soon else max(TICK_S, REST * took_s))

    def _reconcile(self, node: Node) -> Generator[int, None, None]:
        """Start and end the links of one exchange or queue after the other, as policies ask for at that time."""
        upstreams: dict[str, Upstreams] = {}
        targets: list[Exchange | Queue] = []
        yield from read_upstreams(node, upstreams, self._upstreams)
        self._upstreams = upstreams
        yield from scan(node, upstreams, targets)
        yield from self._share_places(node, targets, upstreams)
        running: set[LinkKey] = set()
        refused = Refused(self.refused)
        for target in targets:
            yield from self._reconcile_links(node, target, upstreams, running, refused)
        for key, link in list(self.links.items()):
            if key not in running:  # nothing asks for it, or its target was added to those that are federated meanwhile
                yield from self._reconcile_links(node, link.target, upstreams, running, refused)
        yield from self._give_back_places(refused)
        yield from self._forget_ended()
        self._windows = {place: window for place, window in self._windows.items() if deduplicates(node, *place)}
        self._refuse(refused)
        self._passed()

    def _forget_ended(self) -> Job:
        """Forget links that have ended, and the bindings of exchanges that only they used."""
        over = [link for link in self._ending.values() if link.is_over]
        self._ending = {key: link for key, link in self._ending.items() if not link.is_over}
        self._bindings = {
            place: them for place, them in self._bindings.items() if ("exchange", *place) in self._by_target
        }
        links = (*self.links.values(), *self._ending.values())
        used = {link.bindings for link in links if isinstance(link, ExchangeLink)}
        for link in over:
            if isinstance(link, ExchangeLink) and link.bindings not in used:
                yield from link.bindings.clear()

    def _share_places(
        self, node: Node, targets: list[Exchange | Queue], upstreams: Mapping[str, Upstreams]
    ) -> Generator[int, None, None]:
        """Share the limit between virtual hosts, by the number of links that each wants."""
        wanted: Counter[str] = Counter()
        for target in targets if self._limit < math.inf else ():
            if wanted[target.vhost] >= self._limit:
                yield OTHER_COST
                continue
            links: dict[LinkKey, LinkSpec] = {}
            yield from links_of(node, target, upstreams, links)
            wanted[target.vhost] += len(links)
        self._shares = fair_shares(wanted, self._limit)

    def _give_back_places(self, refused: Refused) -> Job:
        """End links of virtual hosts that have more than their share, first those that do not run, then the newest."""
        excess = {vhost: count - self._shares.get(vhost, count) for vhost, count in self._counts.items()}
        if not any(count > 0 for count in excess.values()):
            return
        links = list(reversed(self.links.values()))
        links.sort(key=lambda link: link.status.status == RUNNING)
        for link in links:
            key = link.spec.key
            if excess.get(key.vhost, 0) > 0 and self.links.get(key) is link:
                excess[key.vhost] -= 1
                self._end(key, removing=False)
                refused.add(link.spec)
                yield CHANGE_COST

    def _has_place(self, vhost: str) -> bool:
        return len(self.links) < self._limit and self._counts[vhost] < self._shares.get(vhost, self._limit)

    def _reconcile_links(
        self,
        node: Node,
        target: Exchange | Queue,
        upstreams: Mapping[str, Upstreams],
        running: set[LinkKey],
        refused: Refused,
    ) -> Job:
        """Start and end links of a target; add those that run to `running`, and the others to `refused`."""
        desired: dict[LinkKey, LinkSpec] = {}
        yield from links_of(node, target, upstreams, desired)
        for key in [link.spec.key for link in self._links_of(target.kind, target.vhost, target.name)]:
            present = self.links.get(key)
            if present is not None and present.target is target and key not in desired:
                self._remove(present)
                yield CHANGE_COST
        for key, now in desired.items():
            if not still_exists(node, target):
                return
            present = self.links.get(key)
            if present is None and not self._has_place(target.vhost):
                refused.add(now)
                yield SPEC_COST
                continue
            running.add(key)
            if isinstance(target, Exchange) and self._bindings_of(target) is None:
                bindings = self._bindings[target.vhost, target.name] = ExchangeBindings(target)
                yield from bindings.read()
                if not still_exists(node, target):
                    return
                present = self.links.get(key)
            cost = CHANGE_COST
            if present is None:
                self._start(now, target, self._ending.get(key))
            elif present.target is not target or present.cluster_name != node.cluster_name:
                self._start(now, target, self._end(key, removing=True))
            elif present.spec != now:
                self._start(now, target, self._end(key, removing=not keeps_upstream_queue(present.spec, now)))
            else:
                cost = SPEC_COST
            yield cost

    def _refuse(self, refused: Refused) -> None:
        """Show the links that a pass has refused, and schedule another pass if there is room for some of them now."""
        if refused.count and not self.refused.count:
            fields: dict[str, object] = {"limit": self._limit, "refused": refused.count}
            self._host.report("federation_link_limit", "warning", fields)
        self.refused = refused
        if refused.count and len(self.links) < self._limit:
            self._soon = True  # links have ended since the first refusal

    def _start(self, now: LinkSpec, target: Exchange | Queue, after: Link | None) -> None:
        place = (now.key.vhost, now.key.name)
        link: Link
        if isinstance(target, Exchange):
            check_s = self._host.config.federation.internal_exchange_check_interval / 1000
            window = self._windows.setdefault(place, DuplicateWindow()) if now.deduplicate else None
            bindings = self._bindings_of(target)
            assert bindings is not None
            link = ExchangeLink(self._host, self._pace, now, bindings, check_s, window)
            if isinstance(after, ExchangeLink) and after.exchange is target:
                link.origin = after.origin
        else:
            link = QueueLink(self._host, self._pace, now, target)
        self._by_target.setdefault((target.kind, *place), []).append(link)
        if after is not None and after.settings.uris == now.settings.uris:  # it leads to the same upstream
            link.status.cluster_name, link.status.vhost = after.status.cluster_name, after.status.vhost
        self.links[now.key] = link
        self._counts[now.key.vhost] += 1
        link.start(after)

    def _end(self, key: LinkKey, removing: bool) -> Link:
        link = self._ending[key] = self.links.pop(key)
        self._counts[key.vhost] -= 1
        if not self._counts[key.vhost]:
            del self._counts[key.vhost]
        place = (link.target.kind, key.vhost, key.name)
        self._by_target[place].remove(link)
        if not self._by_target[place]:
            del self._by_target[place]
        link.end(removing)
        self._pace.turns.spend(LINK_COST)
        return link

    def _remove(self, link: Link) -> None:
        """End a link that nothing requires any more."""
        key = link.spec.key
        self._end(key, removing=True)
        if isinstance(link, ExchangeLink) and still_exists(self._host.node, link.exchange):
            link.detach()
        fields = dict(zip(LINK_KEY, key, strict=True))
        self._host.node.events.emit("warren.federation.link.removed", fields | {"id": key.id})

    # Permissions

    def recheck_permissions(self) -> None:
        """End the attempts of links that changed users or permissions no longer allow."""
        self._recheck_again = True
        if not self._rechecks:
            self._rechecks = True
            self._host.node.scheduler.start("federation permissions", self._recheck(), self._rechecked)

    def _recheck(self) -> Job:
        while self._recheck_again:
            self._recheck_again = False
            for link in list(self.links.values()):
                yield LOOK_COST if link.recheck_permissions() else CHANGE_COST
        self._rechecked()

    def _rechecked(self) -> None:
        self._rechecks = False

    # Events

    def exchange_declared(self, exchange: Exchange) -> None:
        if asks_for_federation(exchange.effective):
            self.reconcile_soon()

    exchange_deleted = exchange_declared

    def queue_declared(self, queue: Queue) -> None:
        if asks_for_federation(queue.effective):
            self.reconcile_soon()

    queue_deleted = queue_declared

    def policy_changed(self, target: Queue | Exchange) -> None:
        self.reconcile_soon()

    def configured(self, change: Change) -> None:
        record = change.record
        if isinstance(record, StoredParameter):
            concerns = record.component in COMPONENTS
        elif isinstance(record, StoredGlobalParameter):
            concerns = record.name == CLUSTER_NAME
        else:
            concerns = isinstance(record, StoredVHost)
        if concerns:
            self.reconcile_soon()
        if isinstance(record, (StoredUser, StoredPermission, StoredTopicPermission)):
            self.recheck_permissions()

    def binding_added(self, vhost: str, binding: Binding) -> None:
        self._binding_changed(vhost, binding, True)

    def binding_removed(self, vhost: str, binding: Binding) -> None:
        self._binding_changed(vhost, binding, False)

    def _binding_changed(self, vhost: str, binding: Binding, bound: bool) -> None:
        """Note a change and notify the links, unless the exchange is deleted: then bindings upstream stay."""
        bindings = self._bindings.get((vhost, binding.source))
        if bindings is None or not still_exists(self._host.node, bindings.exchange):
            return
        if bindings.change(binding, bound) and not bindings.announced:
            bindings.announced = True
            for link in self._links_of("exchange", vhost, binding.source):
                if isinstance(link, ExchangeLink):
                    link.bindings_changed()

    def consumers_changed(self, queue: Queue) -> None:
        """Notify the links of the queue, which may be very many, once of all changes in this turn."""
        place = queue.vhost, queue.name
        if ("queue", *place) in self._by_target and place not in self._consumed:
            self._consumed.add(place)
            asyncio.get_running_loop().call_soon(self._notify_of_consumers, place)

    def _notify_of_consumers(self, place: tuple[str, str]) -> None:
        self._consumed.remove(place)
        for link in self._links_of("queue", *place):
            if isinstance(link, QueueLink):
                link.consumers_changed()

    def _bindings_of(self, exchange: Exchange) -> ExchangeBindings | None:
        bindings = self._bindings.get((exchange.vhost, exchange.name))
        return bindings if bindings is not None and bindings.exchange is exchange else None

    def _links_of(self, kind: str, vhost: str, name: str) -> list[Link]:
        """Return the links of the exchange or queue with this name, perhaps of an earlier one."""
        return self._by_target.get((kind, vhost, name), NO_LINKS)


class Refused:
    """The links that one pass has refused because of the limit; the first of them have a status."""

    def __init__(self, before: Refused | None = None) -> None:
        """`before` are those of the pass before this one."""
        self.count = 0
        self.first: dict[LinkKey, tuple[LinkSpec, LinkStatus]] = {}
        self._before = before.first if before is not None else {}

    def add(self, spec: LinkSpec) -> None:
        self.count += 1
        if len(self.first) < REFUSED_SHOWN:
            known = self._before.get(spec.key)
            self.first[spec.key] = spec, known[1] if known is not None else refused_status()


def fair_shares(wanted: Mapping[str, int], limit: float) -> dict[str, int]:
    """Return how many of `limit` places each virtual host gets.

    None gets more than it wants, and those that want more share the rest equally.
    """
    shares: dict[str, int] = {}
    left = limit
    for place, (vhost, count) in enumerate(sorted(wanted.items(), key=lambda one: (one[1], one[0]))):
        shares[vhost] = int(min(count, left // (len(wanted) - place)))
        left -= shares[vhost]
    return shares


def refused_status() -> LinkStatus:
    status = LinkStatus(time.time, lambda: None)
    status.failed(ERROR, LIMITED, None)
    return status


async def end_in_batches(links: list[Link], settings: Links, removing: bool) -> None:
    """End links in batches; after `shutdown_timeout`, end all remaining ones without a pause.

    The keys are RabbitMQ's, federation.exchanges.shutdown.* and federation.queues.shutdown.*.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + settings.shutdown_timeout / 1000
    for start in range(0, len(links), settings.link_batch_size):
        end = start + settings.link_batch_size if loop.time() < deadline_s else len(links)
        batch = links[start:end]
        for number, link in enumerate(batch, 1):
            link.end(removing)
            if number % ENDED_IN_A_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*(link.ended() for link in batch))
        if end >= len(links):
            return
        await asyncio.sleep(settings.throttle_delay / 1000)


async def all_ended(links: Iterable[Link]) -> None:
    """Wait until links that are being ended have ended, for 2 * CLOSE_S at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * CLOSE_S):
            for link in links:
                await link.ended()


def deduplicates(node: Node, vhost: str, name: str) -> bool:
    """Whether the exchange exists and its policy deduplicates."""
    there = node.vhosts.get(vhost)
    exchange = there.exchanges.get(name) if there is not None else None
    return exchange is not None and exchange.effective.get(DEDUPLICATE) is True
