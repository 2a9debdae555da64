"""The federation service: starts and ends links.

After each event and every few seconds it reconciles the running links with those that policies ask for, so that no
order of events leaves a link too many or too few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from warren.broker.config import Links
from warren.broker.core.metadata.records import (
    Change,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredUser,
    StoredVHost,
)
from warren.broker.core.policies.parameters import CLUSTER_NAME
from warren.broker.core.policies.policy_keys import DEDUPLICATE
from warren.broker.core.vhost.observer import Observer
from warren.broker.plugin import Binding, Exchange, Host, Node, Queue, Service

from .deduplication import DuplicateWindow
from .exchange_link import ExchangeLink
from .link import Link
from .link_spec import LinkKey, LinkSpec, asks_for_federation, desired_links, keeps_upstream_queue, scan, still_exists
from .queue_link import QueueLink

SOON_S = 0.05  # delay after an event, in which further events are collected
TICK_S = 5.0
NO_EXCHANGE_LINKS: list[ExchangeLink] = []
NO_QUEUE_LINKS: list[QueueLink] = []
COMPONENTS = ("federation-upstream", "federation-upstream-set", "policy")


class FederationService(Service):
    """The service "federation". `links` are the links that should run; links that are being ended are in `_ending`."""

    def __init__(self) -> None:
        self.links: dict[LinkKey, Link] = {}
        self._ending: dict[LinkKey, Link] = {}  # the latest ended link of each key
        self._host: Host | None = None
        self._watcher: Watcher | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._scanning = False  # a scan continues in the next turn of the loop
        self._windows: dict[tuple[str, str], DuplicateWindow] = {}  # of exchanges that deduplicate, by vhost and name
        self._exchange_links: dict[tuple[str, str], list[ExchangeLink]] = {}  # by vhost and local name
        self._queue_links: dict[tuple[str, str], list[QueueLink]] = {}

    async def start(self, host: Host) -> None:
        self._host = host
        self._watcher = Watcher(self)
        host.node.observers.add(self._watcher)
        self._tick_in(0.0)

    async def stop(self) -> None:
        """End all links. Upstream queues stay and keep what is published meanwhile."""
        if self._host is None:
            return
        if self._watcher is not None:
            self._host.node.observers.remove(self._watcher)
        if self._timer is not None:
            self._timer.cancel()
        config = self._host.config.federation
        links = {"exchange": list[Link](), "queue": list[Link]()}
        for key, link in self.links.items():
            links[key.kind].append(link)
        self.links.clear()
        removing = config.graceful_shutdown_cleanup
        await asyncio.gather(
            end_in_batches(links["exchange"], config.exchanges, removing),
            end_in_batches(links["queue"], config.queues, removing),
            *(link.ended() for link in self._ending.values()),
        )
        self._host = None

    # For other services

    def status(self) -> list[dict[str, object]]:
        return [link.row() for _, link in sorted(self.links.items())]

    def restart(self, id_: str) -> bool:
        """Restart the link with this id; its objects upstream stay. Returns False if there is no such link."""
        assert self._host is not None
        for key, link in self.links.items():
            if key.id == id_ and key in desired_links(self._host.node, [link.target]):
                self._start(link.spec, self._end(key, removing=False))
                self._index()
                return True
        return False

    # Reconciling

    def reconcile_soon(self) -> None:
        if not self._soon:
            self._soon = True
            if not self._scanning:
                self._tick_in(SOON_S)

    def _tick_in(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(after_s, self._tick)

    def _tick(self) -> None:
        self._soon = False
        assert self._host is not None
        targets: list[Exchange | Queue] = []
        self._scan_slice(scan(self._host.node, targets), targets)

    def _scan_slice(self, slices: Iterator[None], targets: list[Exchange | Queue]) -> None:
        """Scan the next slice of exchanges and queues; after the last one, start and end links."""
        self._scanning = False
        try:
            for _ in slices:
                self._scanning = True
                self._timer = asyncio.get_running_loop().call_later(0, self._scan_slice, slices, targets)
                return
            self._reconcile(targets)
        finally:  # the next tick has to be scheduled even after an error
            if not self._scanning:
                self._tick_in(SOON_S if self._soon else TICK_S)

    def _reconcile(self, targets: list[Exchange | Queue]) -> None:
        assert self._host is not None
        node = self._host.node
        # The targets of running links are included in any case: something may have changed since the scan began.
        desired = desired_links(node, dict.fromkeys([*targets, *(link.target for link in self.links.values())]))
        for key in [key for key in self.links if key not in desired]:
            ended = self._end(key, removing=True)
            if isinstance(ended, ExchangeLink) and still_exists(node, ended.exchange):
                ended.detach()
            self._emit_removed(key)
        for key, now in desired.items():
            link = self.links.get(key)
            if link is None:
                self._start(now, self._ending.get(key))
            elif self._target(key) is not link.target or link.cluster_name != node.cluster_name:
                self._start(now, self._end(key, removing=True))
            elif link.spec != now:
                self._start(now, self._end(key, removing=not keeps_upstream_queue(link.spec, now)))
        self._index()
        self._ending = {key: link for key, link in self._ending.items() if not link.is_over}
        self._windows = {place: window for place, window in self._windows.items() if deduplicates(node, *place)}

    def _target(self, key: LinkKey) -> Exchange | Queue:
        assert self._host is not None
        vhost = self._host.node.vhosts[key.vhost]
        return vhost.exchanges[key.name] if key.kind == "exchange" else vhost.queues[key.name]

    def _start(self, now: LinkSpec, after: Link | None) -> None:
        assert self._host is not None
        target = self._target(now.key)
        link: Link
        if isinstance(target, Exchange):
            check_s = self._host.config.federation.internal_exchange_check_interval / 1000
            place = (now.key.vhost, now.key.name)
            window = self._windows.setdefault(place, DuplicateWindow()) if now.deduplicate else None
            link = ExchangeLink(self._host, now, target, check_s, window)
            if isinstance(after, ExchangeLink) and after.exchange is target:
                link.origin = after.origin
        else:
            link = QueueLink(self._host, now, target)
        if after is not None and after.settings.uris == now.settings.uris:  # it leads to the same upstream
            link.status.cluster_name, link.status.vhost = after.status.cluster_name, after.status.vhost
        self.links[now.key] = link
        link.start(after)

    def _end(self, key: LinkKey, removing: bool) -> Link:
        link = self._ending[key] = self.links.pop(key)
        link.end(removing)
        return link

    def _index(self) -> None:
        self._exchange_links.clear()
        self._queue_links.clear()
        for key, link in self.links.items():
            place = (key.vhost, key.name)
            if isinstance(link, ExchangeLink):
                self._exchange_links.setdefault(place, []).append(link)
            elif isinstance(link, QueueLink):
                self._queue_links.setdefault(place, []).append(link)

    def _emit_removed(self, key: LinkKey) -> None:
        assert self._host is not None
        fields = dict(zip(("vhost", "type", "name", "upstream", "upstream_name"), key, strict=True))
        self._host.node.events.emit("warren.federation.link.removed", fields | {"id": key.id})

    # Events

    def exchange_links(self, vhost: str, name: str) -> list[ExchangeLink]:
        return self._exchange_links.get((vhost, name), NO_EXCHANGE_LINKS)

    def queue_links(self, queue: Queue) -> list[QueueLink]:
        return self._queue_links.get((queue.vhost, queue.name), NO_QUEUE_LINKS)


async def end_in_batches(links: list[Link], settings: Links, removing: bool) -> None:
    """End links in batches; after `shutdown_timeout`, end all remaining ones at once.

    The keys are RabbitMQ's, federation.exchanges.shutdown.* and federation.queues.shutdown.*.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + settings.shutdown_timeout / 1000
    for start in range(0, len(links), settings.link_batch_size):
        end = start + settings.link_batch_size if loop.time() < deadline_s else len(links)
        batch = links[start:end]
        for link in batch:
            link.end(removing)
        await asyncio.gather(*(link.ended() for link in batch))
        if end >= len(links):
            return
        await asyncio.sleep(settings.throttle_delay / 1000)


def deduplicates(node: Node, vhost: str, name: str) -> bool:
    """Whether the exchange exists and its policy deduplicates."""
    there = node.vhosts.get(vhost)
    exchange = there.exchanges.get(name) if there is not None else None
    return exchange is not None and exchange.effective.get(DEDUPLICATE) is True


class Watcher(Observer):
    """An observer of the node: triggers reconciliation after events that may change links, and notifies links."""

    def __init__(self, service: FederationService) -> None:
        self._service = service

    def exchange_declared(self, exchange: Exchange) -> None:
        if asks_for_federation(exchange.effective):
            self._service.reconcile_soon()

    exchange_deleted = exchange_declared

    def queue_declared(self, queue: Queue) -> None:
        if asks_for_federation(queue.effective):
            self._service.reconcile_soon()

    queue_deleted = queue_declared

    def policy_changed(self, target: Queue | Exchange) -> None:
        self._service.reconcile_soon()

    def configured(self, change: Change) -> None:
        record = change.record
        if isinstance(record, StoredParameter):
            concerns = record.component in COMPONENTS
        elif isinstance(record, StoredGlobalParameter):
            concerns = record.name == CLUSTER_NAME
        else:
            concerns = isinstance(record, StoredVHost)
        if concerns:
            self._service.reconcile_soon()
        if isinstance(record, (StoredUser, StoredPermission)):
            for link in self._service.links.values():
                link.recheck_permissions()

    def binding_added(self, vhost: str, binding: Binding) -> None:
        for link in self._service.exchange_links(vhost, binding.source):
            link.binding_added(binding)

    def binding_removed(self, vhost: str, binding: Binding) -> None:
        for link in self._service.exchange_links(vhost, binding.source):
            link.binding_removed(binding)

    def consumers_changed(self, queue: Queue) -> None:
        for link in self._service.queue_links(queue):
            link.check_demand()
