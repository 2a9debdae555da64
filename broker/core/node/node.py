"""The node: virtual hosts, users, parameters, policies, counters, and the ports that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...amqp.errors import Invalid, unknown_vhost
from ...amqp.limits import SHORT_STRING
from ..access.users import RouteCaches, Users
from ..counters.connection_counts import ConnectionCounts
from ..counters.histogram import LatencyHistogram
from ..counters.statistics import Churn, LoginAttempts, Statistics
from ..exchanges.built_in import new_registry
from ..exchanges.exchange_type import Registry
from ..jobs.scheduler import OBJECT_COST, UNLIMITED, Job, Scheduler
from ..jobs.unfinished_publishes import UnfinishedPublishes
from ..messages.clock import Clock
from ..messages.journal_port import Journal
from ..metadata.queue_types import QUEUE_TYPES
from ..metadata.records import Change, StoredVHost
from ..metadata.validation import check_text
from ..policies.limits import Limits
from ..policies.parameters import CLUSTER_NAME, Parameters
from ..policies.policies import Policies
from ..policies.upstream_parameters import register_upstreams
from ..queues.ledger import Ledger
from ..queues.paging import Shedding
from ..queues.queue import Queue
from ..queues.queue_journal import QueueNumbers
from ..telemetry.detailed_rates import DetailedRates
from ..telemetry.event_exchange import Events
from ..telemetry.firehose import Firehose
from ..telemetry.resource_alarms import DISK, Alarms
from ..telemetry.system_exchange import SystemExchange
from ..vhost.node_services import NodeServices, Replication
from ..vhost.observer import Observer, Observers
from ..vhost.vhost import EVENT, CheckNew, VHost, allow_new

if TYPE_CHECKING:
    from ..counters.statistics import Churn
    from ..queues.queue import Queue

VHOST_TEXT_LIMIT = 65_536  # bytes of a description, and of all tags
VHOST_TAGS_LIMIT = 10_000  # each is exported twice, in an entry of at most VALUES_LIMIT values


class VHostRouteCaches(RouteCaches):
    """The cached routes of the node's virtual hosts."""

    def __init__(self, vhosts: Mapping[str, VHost]) -> None:
        self._vhosts = vhosts

    def clear(self, vhost: str) -> None:
        there = self._vhosts.get(vhost)
        if there is not None:
            there.clear_route_cache()

    def drop_user(self, user: str) -> None:
        for vhost in self._vhosts.values():
            vhost.routes.pop(user, None)


class QueueChurn(Observer):
    """An observer that adds created and deleted queues to the churn of the node."""

    def __init__(self, churn: Churn) -> None:
        self._churn = churn

    def queue_declared(self, queue: Queue) -> None:
        self._churn.queue_created += 1

    def queue_deleted(self, queue: Queue) -> None:
        self._churn.queue_deleted += 1


class Node:
    """A broker: its virtual hosts and all that they share.

    `pending` are the queues of all virtual hosts that wait to be pumped. `default_queue_type` is that of virtual hosts
    that are created without one.
    """

    def __init__(
        self,
        name: str,
        cluster_name: str,
        clock: Clock,
        journal: Journal,
        users: Users,
        message_memory_bytes: int = 1 << 62,
        registry: Registry | None = None,
        default_vhost: str = "/",
    ) -> None:
        self.name = name
        self._first_cluster_name = cluster_name
        self.clock = clock
        self.journal = journal
        self.users = users
        self.registry = registry or new_registry()
        self.vhosts: dict[str, VHost] = {}
        self.observers = Observers()
        users.attach(self.vhosts, self.observers, VHostRouteCaches(self.vhosts))
        self.parameters = Parameters(self.vhosts, self.observers)
        self.parameters.user = self._user
        register_upstreams(self.parameters, self._barred)
        self.policies = Policies(self.parameters, self.vhosts, self.observers, clock)
        self.limits = Limits(self.parameters, users, self.vhosts, self.observers)
        self.product = "RabbitMQ"  # clients and tools enable features by product and version
        self.version = "4.3.5"
        self.default_vhost = default_vhost
        self.system_exchanges = [EVENT]  # of the default virtual host, for messages of the broker itself
        self.default_queue_type = ""
        self.give_defaults: Callable[[str], None] = lambda vhost: None  # those of new virtual hosts
        self.scheduler = Scheduler(clock, journal)
        self.pending = self.scheduler.pending
        self._unfinished: dict[str, UnfinishedPublishes] = {}  # by account
        self.numbering = QueueNumbers()
        self.ledger = Ledger(message_memory_bytes)
        journal.addresses = self.ledger.addresses
        self.shedding = Shedding(self.ledger, self.scheduler, journal, clock, self._queues)
        self.open_connections = 0
        self.connection_counts = ConnectionCounts()
        self.churn = Churn()
        self.detailed_rates: DetailedRates | None = None  # if detailed rates are enabled
        self.attempts = {"amqp091": LoginAttempts(), "http": LoginAttempts()}  # by protocol
        self.commits = LatencyHistogram()  # of the write and sync of batches of the journal
        self._ending: dict[str, VHost] = {}  # deleted virtual hosts that are not released completely
        self._drops: dict[str, Job] = {}  # the jobs that release them
        self._dropped_calls: dict[str, list[Callable[[], None]]] = {}
        self._gone = Statistics()  # of deleted virtual hosts
        self.closed = Statistics()  # of closed connections: received and sent bytes
        # Stored definitions that could not be restored at the start and are still missing.
        self.not_restored: Callable[[], list[str]] = list
        self.events = Events(self.system_exchange(EVENT), self.vhosts)
        self.alarms = Alarms()
        self.alarms.add_hook(self._alarm_changed)
        self.replication = Replication()
        self.services = NodeServices(
            clock,
            journal,
            self.ledger,
            self.scheduler,
            self.registry,
            self.numbering,
            self.observers,
            self.limits,
            self.policies,
            self.replication,
        )

    @property
    def cluster_name(self) -> str:
        """The global parameter `cluster_name`, or the name from the configuration."""
        name = self.parameters.get_global(CLUSTER_NAME)
        return name if isinstance(name, str) and name else self._first_cluster_name

    def sum_statistics(self, total: Statistics) -> Iterator[None]:
        """Add the counters of all virtual hosts, including deleted ones, to `total`, in steps: there may be very many.

        Those of connections that close meanwhile are in `closed`.
        """
        vhosts = [*self.vhosts.values(), *self._ending.values()]
        total.add(self._gone)
        for vhost in vhosts:
            total.add(vhost.statistics)
            yield

    def system_exchange(self, name: str) -> SystemExchange:
        """Return the exchange of the default virtual host to which the node publishes, such as `amq.rabbitmq.event`."""
        return SystemExchange(name, self.name, self.clock, self.scheduler, self.vhosts, self.default_vhost)

    def start_events(self) -> None:
        """Publish events from now on. Existing objects are not reported as created."""
        self.events.begin(self.users.all())
        self.observers.add(self.events)
        self.alarms.add_hook(self.events.alarm_changed)

    def unfinished_of(self, account: str) -> UnfinishedPublishes:
        """Return the unfinished publishes of a user."""
        if account not in self._unfinished:
            self._unfinished[account] = UnfinishedPublishes(self.clock)
        return self._unfinished[account]

    # Virtual hosts

    def add_vhost(
        self,
        name: str,
        description: str = "",
        tags: Sequence[str] = (),
        default_queue_type: str = "",
        check_new: CheckNew = allow_new,
    ) -> VHost:
        """Create a virtual host, or return the existing one unchanged. Raises Invalid."""
        vhost = self.vhosts.get(name)
        if vhost is not None:
            return vhost
        metadata = StoredVHost(name, description, tuple(tags), default_queue_type or self.default_queue_type)
        check_metadata(metadata)
        self.limits.check_vhost(name)
        check_new(0, False)  # it is stored, but not counted
        vhost = self.restore_vhost(metadata)
        self.observers.configured(Change(True, metadata))
        self.give_defaults(name)
        return vhost

    def restore_vhost(self, metadata: StoredVHost) -> VHost:
        """Create a stored virtual host at the start, without notifying observers."""
        if metadata.name in self._drops:  # observers know queues and exchanges by names, which must not be reused yet
            self.scheduler.finish(self._drops[metadata.name])
        system_exchanges = self.system_exchanges if metadata.name == self.default_vhost else ()
        vhost = VHost(metadata.name, self.services, system_exchanges)
        vhost.metadata = metadata
        self.vhosts[metadata.name] = vhost
        return vhost

    def update_vhost(
        self,
        name: str,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        default_queue_type: str | None = None,
        protected: bool | None = None,
    ) -> None:
        """Change the metadata of a virtual host; None keeps a value. Raises Unknown, Invalid."""
        vhost = self._vhost(name)
        old = vhost.metadata
        metadata = StoredVHost(
            name,
            old.description if description is None else description,
            old.tags if tags is None else tuple(tags),
            old.default_queue_type if default_queue_type is None else default_queue_type,
            old.protected if protected is None else protected,
        )
        check_metadata(metadata)
        vhost.metadata = metadata
        self.observers.configured(Change(True, metadata))

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with all its objects. Its connections are closed first.

        It disappears at once; its queues, exchanges, parameters and permissions are deleted in slices. Raises Unknown,
        or Invalid if it is protected.
        """
        vhost = self._vhost(name)
        if vhost.metadata.protected:
            raise Invalid(f"cannot delete virtual host '{name}': it is protected from deletion")
        del self.vhosts[name]
        self.observers.configured(Change(False, vhost.metadata))
        self._ending[name] = vhost
        self._drops[name] = drop = self._drop(vhost, self.parameters.drop_vhost(name))
        self.scheduler.start(f"deletion of {vhost}", drop, lambda: self._dropped(vhost))
        self.policies.vhost_deleted(name)

    def _drop(self, vhost: VHost, parameters: Job) -> Job:
        yield from vhost.drop_all()
        yield from parameters
        for deleted in self.users.drop_vhost(vhost.name):
            yield OBJECT_COST if deleted else 1
        self._dropped(vhost)

    def _dropped(self, vhost: VHost) -> None:
        del self._ending[vhost.name], self._drops[vhost.name]
        self._gone.add(vhost.statistics)
        for call in self._dropped_calls.pop(vhost.name, ()):
            call()

    def is_ending(self, name: str) -> bool:
        """Whether a deleted virtual host of this name is not released completely."""
        return name in self._drops

    def when_dropped(self, name: str, call: Callable[[], None]) -> None:
        """Call `call` once the deleted virtual host of this name in `is_ending` is released."""
        self._dropped_calls.setdefault(name, []).append(call)

    def set_tracing(self, name: str, on: bool) -> None:
        """Switch the firehose of a virtual host on or off, until the broker stops. Raises Unknown."""
        vhost = self._vhost(name)
        if vhost.firehose is not None and not on:
            vhost.remove_tracer(vhost.firehose)
            vhost.firehose = None
        elif vhost.firehose is None and on:
            vhost.firehose = Firehose(vhost, self.name)
            vhost.add_tracer(vhost.firehose)

    def _queues(self) -> Iterator[list[Queue]]:
        """Yield the queues of each virtual host."""
        for vhost in list(self.vhosts.values()):
            yield list(vhost.queues.values())

    def _vhost(self, name: str) -> VHost:
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise unknown_vhost(name)
        return vhost

    def _user(self) -> str:
        """Return the user who makes the current change; empty for the node itself and for local operators' tools."""
        user = self.users.get(self.events.actor)
        return "" if user is None else user.name

    def _barred(self, vhost: str) -> str:
        """Return that user if the user may not connect to this virtual host, otherwise an empty string."""
        user = self.users.get(self.events.actor)
        return "" if user is None or vhost in user.permissions else user.name

    def _alarm_changed(self, resource: str, on: bool) -> None:
        if resource == DISK:
            self.scheduler.disk_alarm(on)

    def finish(self, budget: int = UNLIMITED) -> bool:
        """Finish all jobs, and publish the dead letters in all outboxes, before the node stops.

        Return False, with the rest undone, where there is no room (`jobs.scheduler`), or that has cost `budget`.
        """
        self.scheduler.finishing = True
        try:
            if not self.scheduler.finish_all(budget):
                return False
            queues = [queue for vhost in self.vhosts.values() for queue in vhost.queues.values()]
            waiting = [queue for queue in queues if queue.outbox.waiting or queue.outbox.forwarded]
            while waiting:
                for queue in waiting:
                    if not queue.outbox.publish_all(budget):
                        return False
                waiting = [queue for queue in queues if queue.outbox.unpublished]
            return True
        finally:
            self.scheduler.finishing = False

    def pump(self) -> int:
        """Deliver ready messages, also those that a delivery makes ready, and return the cost."""
        return self.scheduler.pump()


def check_metadata(metadata: StoredVHost) -> None:
    """Raise Invalid for bad metadata."""
    check_text("the name of a virtual host", metadata.name, SHORT_STRING, 1)
    check_text("the description of a virtual host", metadata.description, VHOST_TEXT_LIMIT)
    if len(metadata.tags) > VHOST_TAGS_LIMIT:
        raise Invalid(f"a virtual host has at most {VHOST_TAGS_LIMIT} tags")
    check_text("the tags of a virtual host", ",".join(metadata.tags), VHOST_TEXT_LIMIT)
    if metadata.default_queue_type not in ("", *QUEUE_TYPES):  # empty: not chosen
        raise Invalid(f"default queue type '{metadata.default_queue_type}' is not supported")
