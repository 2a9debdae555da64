"""The export of definitions, as a document for import by another broker.

The document consists of plain values, which callers write as JSON. All of it is sorted, so that brokers with the same
definitions export the same.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from ...amqp.errors import unknown_vhost
from ...amqp.limits import RESERVED
from ...amqp.table_json import json_of_table
from ..access.users import User
from ..exchanges.exchange import Exchange
from ..messages.binding import Binding, Destination
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

INTERNAL_PURPOSE = "x-internal-purpose"  # an argument of objects that a plugin declares for itself
IMPORTED_HASH = "imported_definition_hash_value"  # RabbitMQ's name for the hash of the definitions loaded at the start


def is_internal(global_parameter: str) -> bool:
    """Return whether a global parameter is specific to a broker, and not to be imported by another."""
    return global_parameter.startswith("internal_") or global_parameter == IMPORTED_HASH


class Part:
    """The objects of one kind, in a virtual host or the node, as they were when the export began.

    `order` is the key for sorting; `items` returns the entry of an object, or none if it is not exported.
    """

    __slots__ = ("_objects", "_order", "_items")

    def __init__(self, objects: list[T], order: Callable[[T], Any], items: Callable[[T], Items]) -> None:
        self._objects: list[Any] = objects
        self._order: Callable[[Any], Any] = order
        self._items: Callable[[Any], Items] = items

    def batches(self) -> Iterator[Items]:
        """Yield the entries in order, with a bounded amount of work at each step; a step may yield none."""
        runs = []
        for start in range(0, len(self._objects), RUN):
            runs.append(sorted(self._objects[start : start + RUN], key=self._order))
            yield []
        for one in heapq.merge(*runs, key=self._order):
            yield self._items(one)


class Section:
    """A named list of the document."""

    __slots__ = ("name", "parts")

    def __init__(self, name: str, parts: list[Part]) -> None:
        self.name = name
        self.parts = parts

    def batches(self) -> Iterator[Items]:
        for part in self.parts:
            yield from part.batches()


def export_definitions(node: Node, vhost: str | None = None) -> Document:
    """Return all definitions, or those in one virtual host, without its name in each. Raises Unknown."""
    head, sections = snapshot(node, vhost)
    return head | {section.name: [item for items in section.batches() for item in items] for section in sections}


def text_pieces(
    head: Document,
    sections: list[Section],
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


def snapshot(node: Node, vhost: str | None = None) -> tuple[Document, list[Section]]:
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
    return head, [
        Section("parameters", [parameters(node, vhost)]),
        Section("policies", [policies(node, vhost)]),
        Section("queues", [queues(there, {})]),
        Section("exchanges", [exchanges(there, {})]),
        Section("bindings", [bindings(there, {})]),
    ]


def of_cluster(node: Node) -> list[Section]:
    vhosts = [node.vhosts[each] for each in sorted(node.vhosts)]
    places: list[tuple[VHost, Document]] = [(each, {"vhost": each.name}) for each in vhosts]
    names = {each.name for each in vhosts}
    globals_ = node.parameters.globals()
    users_ = node.users.unsorted()
    return [
        Section("users", [Part(users_, by_name, lambda user: [user_document(user)])]),
        Section("vhosts", [Part(vhosts, by_name, lambda each: [{"name": each.name, **vhost_metadata(each)}])]),
        Section("permissions", [Part(users_, by_name, partial(permissions, names))]),
        Section("topic_permissions", [Part(users_, by_name, partial(topic_permissions, names))]),
        Section("parameters", [parameters(node, None)]),
        Section("global_parameters", [Part(list(globals_), lambda name: name, partial(global_items, globals_))]),
        Section("policies", [policies(node, None)]),
        Section("queues", [queues(*place) for place in places]),
        Section("exchanges", [exchanges(*place) for place in places]),
        Section("bindings", [bindings(*place) for place in places]),
    ]


def by_name(one: User | VHost | Queue | Exchange) -> str:
    return one.name


def vhost_metadata(vhost: VHost) -> Document:
    """Return the metadata of a virtual host, both as fields and as a map, as different versions of RabbitMQ read it."""
    kept = vhost.metadata
    queue_type = kept.default_queue_type or CLASSIC
    metadata: Document = {
        "description": kept.description,
        "tags": list(kept.tags),
        "default_queue_type": queue_type,
    }
    if kept.protected:
        metadata["protected_from_deletion"] = True
    return {
        "description": kept.description,
        "tags": list(kept.tags),
        "default_queue_type": queue_type,
        "metadata": metadata,
    }


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


def permissions(vhosts: set[str], user: User) -> Items:
    """Return the permissions in these virtual hosts, without those created since the export began."""
    return [
        {
            "user": user.name,
            "vhost": vhost,
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }
        for vhost, permission in sorted(user.permissions.items())
        if vhost in vhosts
    ]


def topic_permissions(vhosts: set[str], user: User) -> Items:
    return [
        {
            "user": user.name,
            "vhost": vhost,
            "exchange": exchange,
            "write": permission.write,
            "read": permission.read,
        }
        for vhost in sorted(vhosts.intersection(user.topic_permissions))
        for exchange, permission in sorted(user.topic_permissions[vhost].items())
    ]


def global_items(values: Mapping[str, object], name: str) -> Items:
    return [] if is_internal(name) else [{"name": name, "value": values[name]}]


def parameters(node: Node, vhost: str | None) -> Part:
    """Return the parameters, which include operator policies and limits of virtual hosts."""

    def items(one: Parameter) -> Items:
        if one.component == POLICY or vhost not in (None, one.vhost):
            return []
        item: Document = {"component": one.component, "name": one.name, "value": one.value}
        return [item if vhost is not None else {"vhost": one.vhost, **item}]

    return Part(node.parameters.unsorted(), lambda one: (one.vhost, one.component, one.name), items)


def policies(node: Node, vhost: str | None) -> Part:
    """Return the policies in the order of `Policies.all`."""

    def items(policy: Policy) -> Items:
        item = policy_document(policy)
        return [item if vhost is not None else {"vhost": policy.vhost, **item}]

    return Part(node.policies.all(vhost), lambda policy: 0, items)


def is_exported(end: Destination) -> bool:
    """Return whether the object is exported: exclusive, predeclared and plugins' internal objects are not."""
    if isinstance(end, Queue):
        return end.owner is None
    assert isinstance(end, Exchange)
    return end.arguments.get(INTERNAL_PURPOSE) is None and end.name != "" and not end.name.startswith(RESERVED)


def exchanges(vhost: VHost, place: Document) -> Part:
    """Return the exchanges. `place` has the first fields of each entry."""

    def items(exchange: Exchange) -> Items:
        if not is_exported(exchange):
            return []
        return [
            place
            | {
                "name": exchange.name,
                "type": exchange.type_name,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": json_of_table(exchange.arguments),
            }
        ]

    return Part(list(vhost.exchanges.values()), by_name, items)


def queues(vhost: VHost, place: Document) -> Part:
    def items(queue: Queue) -> Items:
        if not is_exported(queue):
            return []
        return [
            place
            | {
                "name": queue.name,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "arguments": arguments_with_type(queue),
            }
        ]

    return Part(list(vhost.queues.values()), by_name, items)


def arguments_with_type(queue: Queue) -> Document:
    """Return the arguments of a queue as JSON, with its type, as another broker may have another default type."""
    arguments = json_of_table(queue.arguments)
    return {**arguments, QUEUE_TYPE: arguments.get(QUEUE_TYPE, queue.settings.type)}


def bindings(vhost: VHost, place: Document) -> Part:
    """Return the bindings between exported objects, and between these and predeclared exchanges."""
    outgoing: list[Binding] = []
    for source in vhost.exchanges.values():
        if source.outgoing and (is_exported(source) or source.name.startswith(RESERVED)):
            outgoing += source.outgoing.values()
    if vhost.unbindings:  # some have a deleted destination
        outgoing = [binding for binding in outgoing if vhost.has(binding.destination)]

    def items(binding: Binding) -> Items:
        end = binding.destination
        if not (is_exported(end) or (isinstance(end, Exchange) and end.name.startswith(RESERVED))):
            return []
        return [
            place
            | {
                "source": binding.source,
                "destination": end.name,
                "destination_type": end.kind,
                "routing_key": binding.routing_key,
                "arguments": json_of_table(binding.arguments),
            }
        ]

    return Part(outgoing, order_of_binding, items)


def order_of_binding(one: Binding) -> tuple[str, str, str, str, bytes]:
    end = one.destination
    return one.source, end.kind, end.name, one.routing_key, one.arguments.raw
