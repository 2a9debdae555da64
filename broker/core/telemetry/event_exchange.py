"""The event exchange `amq.rabbitmq.event`, as RabbitMQ's event exchange plugin has it.

The topic exchange of the default virtual host gets a message without a body for each event. The routing key is the
event's name, the headers are its fields, with RabbitMQ's names and types. Changes of topology and configuration arrive
here as observer calls; sessions and alarms call `emit`. No message is built if nothing receives it.
"""

import json
from collections.abc import Callable, Iterable, Mapping

from ...amqp.field_table import Table
from ...amqp.properties import Properties
from ...logs.redaction import redacted
from ..access.users import User
from ..exchanges.exchange import Exchange
from ..messages.binding import Binding
from ..metadata.records import (
    Change,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredTopicPermission,
    StoredUser,
    StoredVHost,
)
from ..policies.limits import VHOST_LIMITS
from ..queues.queue import Queue
from ..vhost.observer import Observer
from ..vhost.vhost import VHost
from .event_fields import HEADERS_LIMIT_BYTES, field_value, fit_to_limit, format_arguments
from .system_exchange import SystemExchange

INTERNAL = "rmq-internal"  # RabbitMQ's name for the broker itself as the actor
POLICIES = ("policy", "operator_policy")


class Events(Observer):
    """An observer that publishes the events of the node to the event exchange, and passes them to hooks.

    actor  the author of the current change: a user, or one of RabbitMQ's names for an operator's interface
    hooks  called with the name and the fields of each event, during the change

    The last state of virtual hosts and users is kept, because their records do not have the changes. Events leave out
    values of parameters that are longer than headers may be.
    """

    __slots__ = ("actor", "hooks", "_exchange", "_all_vhosts", "_vhosts", "_users", "_pump_scheduled")

    def __init__(self, exchange: SystemExchange, vhosts: Mapping[str, VHost]) -> None:
        self.actor = INTERNAL
        self.hooks: list[Callable[[str, Table], object]] = []
        self._exchange = exchange
        self._all_vhosts = vhosts
        self._vhosts: set[str] = set()
        self._users: dict[str, StoredUser] = {}
        self._pump_scheduled = False

    def begin(self, users: Iterable[User]) -> None:
        """Take the virtual hosts and these users as existing: only later ones are reported as created."""
        self._vhosts = set(self._all_vhosts)
        self._users = {user.name: user.stored() for user in users}

    @property
    def has_receivers(self) -> bool:
        """True if there is a hook, or a queue or exchange bound to the event exchange."""
        return bool(self.hooks) or self._exchange.is_bound

    def emit(self, name: str, fields: Mapping[str, object]) -> None:
        """Publish an event, such as `alarm.set`."""
        if not self.has_receivers:
            return
        exchange = self._exchange
        now_ms = exchange.clock.now_ms()
        values = {key: field_value(value) for key, value in fields.items()}
        values["timestamp_in_ms"] = ("l", now_ms)
        headers = fit_to_limit(values)
        for hook in list(self.hooks):
            hook(name, headers)
        if not exchange.is_bound:
            return
        exchange.publish(name, Properties(headers=headers, delivery_mode=2, timestamp=now_ms // 1000), b"")
        if not self._pump_scheduled:  # callers in the HTTP API do not pump
            self._pump_scheduled = True
            exchange.clock.call_at(now_ms, self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        self._exchange.scheduler.pump()

    def alarm_changed(self, resource: str, on: bool) -> None:
        self.emit(f"alarm.{'set' if on else 'cleared'}", {"source": resource, "node": self._exchange.node_name})

    def _publish_event(self, name: str, fields: dict[str, object]) -> None:
        fields["user_who_performed_action"] = self.actor
        self.emit(name, fields)

    # Exchanges, queues, bindings

    def exchange_declared(self, exchange: Exchange) -> None:
        if self.has_receivers:
            fields: dict[str, object] = {
                "name": exchange.name,
                "vhost": exchange.vhost,
                "type": exchange.type_name,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": format_arguments(exchange.arguments),
                "policy": exchange.policy.name if exchange.policy is not None else "",
            }
            self._publish_event("exchange.created", fields)

    def exchange_deleted(self, exchange: Exchange) -> None:
        if self.has_receivers:
            self._publish_event("exchange.deleted", {"name": exchange.name, "vhost": exchange.vhost})

    def queue_declared(self, queue: Queue) -> None:
        if self.has_receivers:
            fields: dict[str, object] = {
                "name": queue.name,
                "vhost": queue.vhost,
                "type": queue_type(queue),
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "exclusive": queue.owner is not None,
                "owner_pid": str(queue.owner or ""),
                "arguments": format_arguments(queue.arguments),
            }
            self._publish_event("queue.created", fields)

    def queue_deleted(self, queue: Queue) -> None:
        if self.has_receivers:
            self._publish_event("queue.deleted", {"name": queue.name, "vhost": queue.vhost})

    def binding_added(self, vhost: str, binding: Binding) -> None:
        self._binding("binding.created", vhost, binding)

    def binding_removed(self, vhost: str, binding: Binding) -> None:
        self._binding("binding.deleted", vhost, binding)

    def _binding(self, name: str, vhost: str, binding: Binding) -> None:
        if self.has_receivers:
            fields: dict[str, object] = {
                "vhost": vhost,
                "source_name": binding.source,
                "source_kind": "exchange",
                "destination_name": binding.destination.name,
                "destination_kind": binding.destination.kind,
                "routing_key": binding.routing_key,
                "arguments": format_arguments(binding.arguments),
            }
            self._publish_event(name, fields)

    def policy_changed(self, target: Queue | Exchange) -> None:
        """Publish the policies of a queue; those of exchanges are no event, as in RabbitMQ."""
        if not isinstance(target, Queue) or not self.has_receivers:
            return
        fields: dict[str, object] = {"name": target.name, "vhost": target.vhost, "type": queue_type(target)}
        policy = target.policy or target.operator_policy
        if policy is None:
            self._publish_event("queue.policy.cleared", fields)
            return
        fields |= {"pattern": policy.pattern, "definition": dict(policy.definition)}
        fields |= {"priority": policy.priority, "apply-to": policy.apply_to}
        self._publish_event("queue.policy.updated", fields)

    # Stored settings

    def configured(self, change: Change) -> None:
        record = change.record
        if isinstance(record, StoredParameter):
            self._parameter(change.put, record)
        elif isinstance(record, StoredGlobalParameter):
            self._global_parameter(change.put, record)
        elif isinstance(record, StoredPermission):
            fields: dict[str, object] = {"user": record.user, "vhost": record.vhost}
            if change.put:
                fields |= {"configure": record.configure, "write": record.write, "read": record.read}
            self._publish_event(f"permission.{'created' if change.put else 'deleted'}", fields)
        elif isinstance(record, StoredTopicPermission):
            fields = {"user": record.user, "vhost": record.vhost, "exchange": record.exchange}
            if change.put:
                fields |= {"write": record.write, "read": record.read}
            self._publish_event(f"topic.permission.{'created' if change.put else 'deleted'}", fields)
        elif isinstance(record, StoredVHost):
            self._vhost(change.put, record)
        elif isinstance(record, StoredUser):
            self._user(change.put, record)

    def _global_parameter(self, put: bool, record: StoredGlobalParameter) -> None:
        if not self.has_receivers:
            return
        fields: dict[str, object] = {"component": "global", "name": record.name}
        if put and len(record.value) <= HEADERS_LIMIT_BYTES:
            fields["value"] = redacted(record.name, json.loads(record.value))
        self._publish_event(f"parameter.{'set' if put else 'cleared'}", fields)

    def _parameter(self, put: bool, record: StoredParameter) -> None:
        if not self.has_receivers:
            return
        component = record.component
        shown = put and (component in POLICIES or len(record.value) <= HEADERS_LIMIT_BYTES)
        value = json.loads(record.value) if shown else None
        if component != "policy":
            fields: dict[str, object] = {"vhost": record.vhost, "component": component, "name": record.name}
            if shown:
                fields["value"] = redacted(record.name, value)
            self._publish_event(f"parameter.{'set' if put else 'cleared'}", fields)
        if component in POLICIES:
            fields = {"vhost": record.vhost, "name": record.name}
            if isinstance(value, dict):
                fields |= value
            cleared = "policy.cleared" if component == "policy" else "operator.policy.cleared"
            self._publish_event("policy.set" if put else cleared, fields)
        elif component == VHOST_LIMITS:
            fields = {"vhost": record.vhost, "name": record.name}
            if isinstance(value, dict):
                fields |= value
            self._publish_event(f"vhost.limits.{'set' if put else 'cleared'}", fields)

    def _vhost(self, put: bool, record: StoredVHost) -> None:
        """Publish the creation, with the predeclared exchanges, or deletion of a virtual host. Changes are no event."""
        name = record.name
        if not put:
            self._vhosts.discard(name)
            self._publish_event("vhost.deleted", {"name": name})
            return
        if name in self._vhosts:
            return
        self._vhosts.add(name)
        for exchange in self._all_vhosts[name].exchanges.values():
            self.exchange_declared(exchange)
        fields: dict[str, object] = {
            "name": name,
            "description": record.description,
            "tags": ",".join(record.tags),
            "default_queue_type": record.default_queue_type or "undefined",
            "tracing": False,
            "cluster_state": {self._exchange.node_name: "running"},
        }
        self._publish_event("vhost.created", fields)

    def _user(self, put: bool, record: StoredUser) -> None:
        """Publish the changes of a user. A password that the broker only hashes anew is no change."""
        name = record.name
        if not put:
            self._users.pop(name, None)
            self._publish_event("user.deleted", {"name": name})
            return
        old = self._users.get(name)
        self._users[name] = record
        if old is None:
            self._publish_event("user.created", {"name": name})
            old = StoredUser(name, record.password_hash, ())
        if record.password_hash != old.password_hash and self.actor != INTERNAL:
            self._publish_event(f"user.password.{'changed' if record.password_hash else 'cleared'}", {"name": name})
        if record.tags != old.tags:
            self._publish_event("user.tags.set", {"name": name, "tags": list(record.tags)})
        if record.limits != old.limits:
            fields: dict[str, object] = {"name": "limits", "username": name}
            self._publish_event(f"user.limits.{'set' if record.limits else 'cleared'}", fields | record.limits)


def queue_type(queue: Queue) -> str:
    """Return RabbitMQ's name for the type of the queue."""
    return f"rabbit_{queue.settings.type}_queue"
