"""The export of definitions, as a document for import by another broker.

The document consists of plain values, which callers write as JSON. All of it is sorted, so that brokers with the same
definitions export the same.
"""

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from ...amqp.errors import unknown_vhost
from ...amqp.limits import RESERVED
from ...amqp.table_json import json_of_table
from ..access.users import User
from ..exchanges.exchange import Exchange
from ..messages.binding import Binding
from ..metadata.policy import Policy
from ..metadata.queue_types import CLASSIC
from ..node.node import Node
from ..policies.limits import NAME, VHOST_LIMITS
from ..policies.parameters import POLICY, Parameter
from ..queues.arguments import QUEUE_TYPE
from ..queues.queue import Queue
from ..vhost.vhost import VHost

T = TypeVar("T")
Document = dict[str, object]
Items = list[Document]

RUN = 500  # objects sorted in one step
BY_NAME, BY_PLACE = attrgetter("name"), attrgetter("vhost", "name")

INTERNAL_PURPOSE = "x-internal-purpose"  # an argument of objects that a plugin declares for itself
IMPORTED_HASH = "imported_definition_hash_value"  # RabbitMQ's name for the hash of the definitions loaded at the start


def is_internal(global_parameter: str) -> bool:
    """Return whether a global parameter is specific to a broker, and not to be imported by another."""
    return global_parameter.startswith("internal_") or global_parameter == IMPORTED_HASH


class Section(Generic[T]):
    """A named list of the document, of objects as they were when the export began.

    `order` is the key for sorting; `items` returns the entry of an object, or none if it is not exported.
    """

    __slots__ = ("name", "_objects", "_order", "_items")

    def __init__(self, name: str, objects: list[T], order: Callable[[T], Any], items: Callable[[T], Items]) -> None:
        self.name = name
        self._objects = objects
        self._order = order
        self._items = items

    def batches(self) -> Iterator[Items]:
        """Yield the entries in order, with a bounded amount of work at each step; a step may yield none."""
        for one in in_order(self._objects, self._order):
            yield self._items(one) if one is not None else []


class TopicPermissions(Section[User]):
    """The list of topic permissions in these virtual hosts, of which one user may have very many."""

    __slots__ = ("_vhosts",)

    def __init__(self, users: list[User], vhosts: set[str]) -> None:
        super().__init__("topic_permissions", users, BY_NAME, lambda user: [])
        self._vhosts = vhosts

    def batches(self) -> Iterator[Items]:
        for user in in_order(self._objects, self._order):
            if user is not None:
                for vhost in sorted(self._vhosts.intersection(user.topic_permissions)):
                    yield from self._of_user(user, vhost)
            yield []

    def _of_user(self, user: User, vhost: str) -> Iterator[Items]:
        there = user.topic_permissions.get(vhost, {})
        for exchange in in_order(list(there), str):
            permission = there.get(exchange) if exchange is not None else None
            of = {"user": user.name, "vhost": vhost, "exchange": exchange}
            yield [of | attributes(permission, "write", "read")] if permission is not None else []


def in_order(objects: list[T], order: Callable[[T], Any]) -> Iterator[T | None]:
    """Yield the objects in order, with a bounded amount of work at each step; a step may yield None."""
    runs = []
    for start in range(0, len(objects), RUN):
        runs.append(sorted(objects[start : start + RUN], key=order))
        yield None
    yield from heapq.merge(*runs, key=order)


def export_definitions(node: Node, vhost: str | None = None) -> Document:
    """Return all definitions, or those in one virtual host, without its name in each. Raises Unknown."""
    head, sections = snapshot(node, vhost)
    return head | {section.name: [item for items in section.batches() for item in items] for section in sections}


def text_pieces(
    head: Document,
    sections: list[Section[Any]],
    encode: Callable[[str, Document], bytes] = lambda name, item: encode_entry(item),
) -> Iterator[bytes]:
    """Yield the JSON text of a snapshot in short pieces, some of them empty, between which the caller may serve others.

    `encode` is called with the name of a section and an entry, or with an empty name and the head.
    """
    yield encode("", head)[:-1]
    comma = b"," if head else b""
    for section in sections:
        yield comma + b'"' + section.name.encode() + b'":['
        comma = b""
        for items in section.batches():
            text = b",".join([encode(section.name, item) for item in items])
            yield comma + text if text else b""
            comma = b"," if text else comma
        yield b"]"
        comma = b","
    yield b"}"


def encode_entry(item: Document) -> bytes:
    return json.dumps(item, separators=(",", ":")).encode()


def snapshot(node: Node, vhost: str | None = None) -> tuple[Document, list[Section[Any]]]:
    """Return the head and the sections of the document.

    The objects in them do not change any more, but are described as they are when the sections are read. Raises
    Unknown.
    """
    head: Document = {
        "rabbit_version": node.version,
        "rabbitmq_version": node.version,
        "product_name": node.product,
        "product_version": node.version,
    }
    if vhost is None:
        head |= {
            "rabbitmq_definition_format": "cluster",
            "original_cluster_name": node.cluster_name,
            "explanation": f"Definitions of cluster '{node.cluster_name}'",
        }
        return head, of_cluster(node)
    there = node.vhosts.get(vhost)
    if there is None:
        raise unknown_vhost(vhost)
    head |= {
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost,
        "explanation": f"Definitions of virtual host '{vhost}'",
        **vhost_metadata(there),
        "limits": node.parameters.get(vhost, VHOST_LIMITS, NAME) or [],  # RabbitMQ writes a list if there are none
    }
    return head, [part(node, vhost) for part in (parameters, policies, queues, exchanges, bindings)]


def of_cluster(node: Node) -> list[Section[Any]]:
    vhosts = list(node.vhosts.values())
    names = set(node.vhosts)
    globals_ = node.parameters.globals()
    users = node.users.unsorted()
    return [
        Section("users", users, BY_NAME, lambda user: [user_document(user)]),
        Section("vhosts", vhosts, BY_NAME, lambda each: [{"name": each.name, **vhost_metadata(each)}]),
        Section("permissions", users, BY_NAME, partial(permissions, names)),
        TopicPermissions(users, names),
        parameters(node, None),
        Section("global_parameters", list(globals_), str, partial(global_items, globals_)),
        policies(node, None),
        queues(node, None),
        exchanges(node, None),
        bindings(node, None),
    ]


def vhost_metadata(vhost: VHost) -> Document:
    """Return the metadata of a virtual host, both as fields and as a map, as different versions of RabbitMQ read it."""
    kept = vhost.metadata
    queue_type = kept.default_queue_type or CLASSIC
    fields: Document = {"description": kept.description, "tags": list(kept.tags), "default_queue_type": queue_type}
    metadata = dict(fields)
    if kept.protected:
        metadata["protected_from_deletion"] = True
    return {**fields, "metadata": metadata}


def user_document(user: User) -> Document:
    """Return the fields of a user."""
    return {
        "name": user.name,
        "password_hash": user.password_hash.decode("ascii"),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def policy_document(policy: Policy) -> Document:
    """Return the fields of a policy, without the virtual host."""
    return {
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def attributes(of: object, *names: str) -> Document:
    return {name: getattr(of, name) for name in names}


def permissions(vhosts: set[str], user: User) -> Items:
    """Return the permissions in these virtual hosts, without those created since the export began."""
    return [
        {"user": user.name, "vhost": vhost, **attributes(permission, "configure", "write", "read")}
        for vhost, permission in sorted(user.permissions.items())
        if vhost in vhosts
    ]


def global_items(values: Mapping[str, object], name: str) -> Items:
    return [] if is_internal(name) else [{"name": name, "value": values[name]}]


# The sections of parts of virtual hosts: of one, or of all if `vhost` is None. An entry names its virtual host then.


def entry_in(vhost: str | None, there: str, item: Document) -> Document:
    """Return the entry of an object in the virtual host `there`."""
    return item if vhost is not None else {"vhost": there, **item}


def vhosts_of(node: Node, vhost: str | None) -> Iterable[VHost]:
    return node.vhosts.values() if vhost is None else (node.vhosts[vhost],)


def parameters(node: Node, vhost: str | None) -> Section[Parameter]:
    """Return the parameters, which include operator policies and limits of virtual hosts."""

    def items(one: Parameter) -> Items:
        if one.component == POLICY or vhost not in (None, one.vhost):
            return []
        return [entry_in(vhost, one.vhost, {"component": one.component, "name": one.name, "value": one.value})]

    return Section("parameters", node.parameters.unsorted(), attrgetter("vhost", "component", "name"), items)


def policies(node: Node, vhost: str | None) -> Section[Policy]:
    """Return the policies in the order of `Policies.all`."""

    def items(policy: Policy) -> Items:
        return [entry_in(vhost, policy.vhost, policy_document(policy))]

    return Section("policies", node.policies.all(vhost), lambda policy: 0, items)


def is_exported(end: Queue | Exchange) -> bool:
    """Return whether the object is exported: exclusive, predeclared and plugins' internal objects are not."""
    if isinstance(end, Queue):
        return end.owner is None
    return end.arguments.get(INTERNAL_PURPOSE) is None and end.name != "" and not end.name.startswith(RESERVED)


def exchanges(node: Node, vhost: str | None) -> Section[Exchange]:
    def items(exchange: Exchange) -> Items:
        if not is_exported(exchange):
            return []
        item: Document = {"name": exchange.name, "type": exchange.type_name}
        item |= attributes(exchange, "durable", "auto_delete", "internal")
        return [entry_in(vhost, exchange.vhost, {**item, "arguments": json_of_table(exchange.arguments)})]

    found = [exchange for there in vhosts_of(node, vhost) for exchange in there.exchanges.values()]
    return Section("exchanges", found, BY_PLACE, items)


def queues(node: Node, vhost: str | None) -> Section[Queue]:
    def items(queue: Queue) -> Items:
        if not is_exported(queue):
            return []
        item = attributes(queue, "name", "durable", "auto_delete")
        return [entry_in(vhost, queue.vhost, {**item, "arguments": arguments_with_type(queue)})]

    found = [queue for there in vhosts_of(node, vhost) for queue in there.queues.values()]
    return Section("queues", found, BY_PLACE, items)


def arguments_with_type(queue: Queue) -> Document:
    """Return the arguments of a queue as JSON, with its type, as another broker may have another default type."""
    arguments = json_of_table(queue.arguments)
    return {**arguments, QUEUE_TYPE: arguments.get(QUEUE_TYPE, queue.settings.type)}


def bindings(node: Node, vhost: str | None) -> Section[Binding]:
    """Return the bindings between exported objects, and between these and predeclared exchanges."""
    outgoing: list[Binding] = []
    unbinding: set[tuple[str, str, str]] = set()  # destinations, some of whose bindings are not deleted yet
    for there in vhosts_of(node, vhost):
        for source in there.exchanges.values():
            if source.outgoing and (is_exported(source) or source.name.startswith(RESERVED)):
                outgoing += source.outgoing.values()
        unbinding.update([(there.name, *key) for key in there.unbinding_jobs])

    def items(binding: Binding) -> Items:
        end = end_of(binding)
        if not (is_exported(end) or (isinstance(end, Exchange) and end.name.startswith(RESERVED))):
            return []
        if (end.vhost, end.kind, end.name) in unbinding:
            return []
        item: Document = {
            "source": binding.source,
            "destination": end.name,
            "destination_type": end.kind,
            "routing_key": binding.routing_key,
            "arguments": json_of_table(binding.arguments),
        }
        return [entry_in(vhost, end.vhost, item)]

    return Section("bindings", outgoing, order_of_binding, items)


def end_of(binding: Binding) -> Queue | Exchange:
    assert isinstance(binding.destination, (Queue, Exchange))
    return binding.destination


def order_of_binding(one: Binding) -> tuple[str, str, str, str, str, bytes]:
    end = end_of(one)
    return end.vhost, one.source, end.kind, end.name, one.routing_key, one.arguments.raw
