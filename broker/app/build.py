"""Construction of the node and the settings of its sessions from the configuration; the notice about quorum queues."""

import base64
import os
import platform
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path

import structlog

from .. import logs
from ..config import NO_LOGIN, Config, default_node
from ..core.access.passwords import Hashing, PasswordRules
from ..core.access.users import Users
from ..core.definitions.definition_recorder import DefinitionRecorder
from ..core.definitions.restore import restore
from ..core.exchanges.exchange import Exchange
from ..core.exchanges.exchange_context import RecoveredMessages
from ..core.exchanges.exchange_type import Registry
from ..core.messages.clock import Clock
from ..core.messages.journal_port import RecoveredQueue
from ..core.messages.message import Message
from ..core.metadata.queue_types import QUORUM
from ..core.metadata.records import Definitions, first_definitions
from ..core.node.node import Node, QueueChurn
from ..core.policies.parameters import CLUSTER_ID
from ..core.queues.queue import Queue
from ..core.telemetry.log_exchange import LOG
from ..core.vhost.node_services import Replication
from ..core.vhost.observer import Observer
from ..core.vhost.sharding import ShardedExchanges
from ..operator.default_user import default_user
from ..operator.vhost_defaults import VHostDefaults
from ..runtime.process_memory import total_bytes
from ..session.settings import Settings, server_properties
from ..stable_hash import stable_hash
from .open_storage import Store

MESSAGE_MEMORY_LIMIT = 3 << 29  # 1.5 GiB: ten million messages of backlog then fit in two
BESIDE_BYTES = 20 << 20  # 4 MiB in each of three batches of the journal, and `Ledger.FAR`
MEANS = "a quorum queue is a durable queue, and is lost with the only machine that has it"
REQUIRED = f"{MEANS}; storage.quorum_requires_replication refuses only new ones"

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def build_node(
    config: Config, clock: Clock, store: Store, hashing: Hashing | None = None, registry: Registry | None = None
) -> Node:
    """Build the node and restore what was stored.

    A new node has the default virtual host and user, or nothing if definitions are configured to be loaded.
    """
    users = Users(frozenset(config.loopback_users), hashing, password_rules(config), config.password_hashing)
    node = Node(
        config.node,
        default_cluster_name(config, store.id),
        clock,
        store.journal,
        users,
        message_memory_bytes(config),
        registry,
        config.default_vhost,
    )
    node.product, node.version = config.product, config.version
    node.default_queue_type = config.default_queue_type
    node.replication.status = store.status
    node.replication.required = config.storage.quorum_requires_replication
    if config.log.exchange:
        node.system_exchanges.append(LOG)
    definitions = store.definitions or Definitions()
    begins = definitions.empty and not config.load_definitions
    if begins:
        user = default_user(config, logs.report)
        rights = config.default_permissions
        permission = (rights.configure, rights.write, rights.read)
        definitions = first_definitions(config.default_vhost, [user], permission, config.default_queue_type)
        for change in definitions.changes():
            store.journal.change(change)
    restored = restore(node, definitions)
    store.name_queues(partial(name_of, node))
    # After the restoration, because limits apply only to new objects.
    node.limits.queues = config.cluster_queue_limit
    node.limits.exchanges = config.cluster_exchange_limit
    node.limits.vhosts = config.vhost_max
    node.parameters.limits.update(config.runtime_parameter_limits)
    for loss in restored.lost:
        log.error("not_restored", what=loss.text)
    for queue in restored.queues:
        queue.restore(store.queues.pop(queue.number, RecoveredQueue()))
    shared: dict[int, Message] = {}
    for exchange in restored.exchanges:
        exchange.type.restore(RecoveredMessages(store.queues.pop(exchange.number, RecoveredQueue()), shared))
    node.numbering.next = max(node.numbering.next, store.next_queue)
    notice = QuorumNotice(node.replication)
    notice.log_restored(restored.queues)
    sharded = ShardedExchanges(node.name, node.vhosts)
    node.observers.add(DefinitionRecorder(node, restored.orphans), QueueChurn(node.churn), notice, sharded)
    node.start_events()
    sharded.start()
    node.give_defaults = VHostDefaults(config, node, logs.report).apply
    if begins:
        node.give_defaults(config.default_vhost)
    if not node.parameters.has_global(CLUSTER_ID):
        unique = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        node.parameters.set_global(CLUSTER_ID, f"rabbitmq-cluster-id-{unique}")  # the form that tools look for
    node.pump()  # messages that expired while the broker was down, and those beyond new limits
    return node


def message_memory_bytes(config: Config) -> int:
    """Return the memory above which messages are paged out; no limit if they cannot be.

    BESIDE_BYTES are left for messages that wait for the disk, and for deliveries beyond the limit.
    """
    if config.memory:
        return 1 << 62
    limit = config.message_memory_bytes
    if limit is None:
        limit = min((config.total_memory_bytes or total_bytes()) * 2 // 5, MESSAGE_MEMORY_LIMIT)
    return max(limit - BESIDE_BYTES, limit // 2)


def default_cluster_name(config: Config, store_id: str = "") -> str:
    """Return the cluster's name until an operator sets one: as configured, or else the node's name.

    All brokers of a store on PostgreSQL have the same name, from its id, whichever of them owns it.

    Brokers of one machine that configure neither have the same node name. They would share their queues at an upstream,
    which are named after the cluster. So four digits of a hash follow: of the data folder's path or, without one, of
    the listeners.
    """
    if store_id and not config.cluster_name:
        return f"warren-{store_id[:8]}"
    if config.cluster_name or config.node != default_node():
        return config.cluster_name or config.node
    place = str(config.listeners_tcp) if config.memory else os.path.realpath(config.data_dir)
    return f"{config.node}-{stable_hash(os.fsencode(place)) >> 48:04x}"


def password_rules(config: Config) -> PasswordRules:
    """Return the password rule that the configuration has chosen, or none."""
    chosen = config.credential_validator
    return PasswordRules(
        config.password_min_length if chosen == "min_password_length" else 0,
        config.password_regexp if chosen == "password_regexp" else "",
    )


def load_definitions(node: Node, config: Config) -> bool:
    """Import the configured definition files before the journal's first batch. On failure log it and return False."""
    from ..core.definitions.files import DefinitionsError, load  # here: 10 ms that most starts do not need

    try:
        skipped = load(node, Path(config.load_definitions), config.definitions_skip_if_unchanged)
    except DefinitionsError as error:
        log.error("cannot_load_definitions", reason=str(error))
        return False
    for line in skipped or ():
        log.warning("definitions", what=line)
    log.info("definitions_loaded" if skipped is not None else "definitions_unchanged", path=config.load_definitions)
    return True


def build_settings(config: Config) -> Settings:
    """Return the settings of sessions."""
    runs_on = f"Python {platform.python_version()}"
    anonymous = config.anonymous_login_user if config.anonymous_login_user != NO_LOGIN else None
    return Settings(
        server_properties(config.product, config.version, runs_on),
        mechanisms=config.mechanisms,
        anonymous_user=anonymous,
        anonymous_pass=config.anonymous_login_pass,
        channel_max=config.channel_max,
        frame_max=config.frame_max,
        heartbeat_s=config.heartbeat_s,
        initial_frame_max=config.initial_frame_max,
        max_message_size=config.max_message_size,
        connection_max=config.connection_max,
        channel_max_per_node=config.channel_max_per_node,
        consumer_max_per_channel=config.consumer_max_per_channel,
        default_consumer_prefetch=config.default_consumer_prefetch,
        consumer_timeout_ms=config.consumer_timeout_ms,
        transaction_max_bytes=config.transaction_max_bytes,
    )


class QuorumNotice(Observer):
    """An observer that logs the first declaration of a quorum queue while the store is not replicated.

    Later ones are not logged: a client may declare 10,000 queues, and all are stored alike.
    """

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._logged = False

    def log_restored(self, queues: Iterable[Queue]) -> None:
        """Log the number of restored quorum queues. They stay, even if new ones are refused."""
        count = sum(queue.settings.type == QUORUM for queue in queues)
        status = self._replication.status()
        if not count or status.replicated:
            return
        write, means = (log.warning, REQUIRED) if self._replication.required else (log.info, MEANS)
        write("quorum_queues_not_replicated", queues=count, guarantee=status.guarantee, means=means)

    def queue_declared(self, queue: Queue) -> None:
        if self._logged or queue.settings.type != QUORUM:
            return
        status = self._replication.status()
        if not status.replicated:
            self._logged = True
            facts = {"queue": queue.name, "vhost": queue.vhost, "guarantee": status.guarantee}
            log.warning("quorum_queue_not_replicated", **facts, means=MEANS)


def name_of(node: Node, number: int) -> str:
    """Return the queue or exchange with this number in the journal, for the operator, or an empty text."""
    for vhost in node.vhosts.values():
        for each in chain[Queue | Exchange](vhost.queues.values(), vhost.exchanges.values()):
            if each.number == number:
                return str(each)
    return ""
