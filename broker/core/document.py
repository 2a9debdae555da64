"""The document of definitions: what operators take from one broker to another (spec/operator.md 1.9).

Here it is written; `plan` reads it. It is plain values, of which others make JSON. All of it is sorted, so that two
brokers with the same definitions write the same.
"""

from __future__ import annotations

from ..errors import Unknown
from .arguments import QUEUE_TYPE
from .binding import Destination
from .exchange import Exchange
from .json_table import json_of_table
from .limits import NAME, VHOST_LIMITS
from .node import Node
from .parameters import POLICY
from .queue import Queue
from .rules import CLASSIC
from .vhost import RESERVED, VHost

Document = dict[str, object]
Items = list[Document]

INTERNAL_PURPOSE = "x-internal-purpose"  # an argument of what a plugin declares for itself
IMPORTED_HASH = "imported_definition_hash_value"  # of what was loaded at the start, under RabbitMQ's name


def is_internal(global_parameter: str) -> bool:
    """Whether it is this broker's own, and no other's to take over."""
    return global_parameter.startswith("internal_") or global_parameter == IMPORTED_HASH


def exported(node: Node, vhost: str | None = None) -> Document:
    """All definitions, or what is in one virtual host, in a form without its name. Raises Unknown."""
    head: Document = {
        "rabbit_version": node.version,
        "rabbitmq_version": node.version,
        "product_name": node.product,
        "product_version": node.version,
    }
    if vhost is None:
        return head | of_cluster(node)
    there = node.vhosts.get(vhost)
    if there is None:
        raise Unknown(f'Virtual host "{vhost}" does not exist')
    return head | of_vhost(node, there)


def of_cluster(node: Node) -> Document:
    name = node.cluster_name
    vhosts = [node.vhosts[each] for each in sorted(node.vhosts)]
    globals_ = node.parameters.globals()
    return {
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": name,
        "explanation": f"Definitions of cluster '{name}'",
        "users": users(node),
        "vhosts": [{"name": each.name, **described(each)} for each in vhosts],
        "permissions": permissions(node),
        "topic_permissions": topic_permissions(node),
        "parameters": parameters(node, None),
        "global_parameters": [
            {"name": each, "value": globals_[each]} for each in sorted(globals_) if not is_internal(each)
        ],
        "policies": policies(node, None),
        "queues": [item for each in vhosts for item in placed(each, queues(each))],
        "exchanges": [item for each in vhosts for item in placed(each, exchanges(each))],
        "bindings": [item for each in vhosts for item in placed(each, bindings(each))],
    }


def of_vhost(node: Node, vhost: VHost) -> Document:
    return {
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost.name,
        "explanation": f"Definitions of virtual host '{vhost.name}'",
        **described(vhost),
        "limits": node.parameters.get(vhost.name, VHOST_LIMITS, NAME) or [],  # as RabbitMQ writes none
        "parameters": parameters(node, vhost.name),
        "policies": policies(node, vhost.name),
        "queues": queues(vhost),
        "exchanges": exchanges(vhost),
        "bindings": bindings(vhost),
    }


def placed(vhost: VHost, items: Items) -> Items:
    return [{"vhost": vhost.name, **item} for item in items]


def described(vhost: VHost) -> Document:
    """A virtual host's metadata, once plainly and once together, as different versions of RabbitMQ read it."""
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


def users(node: Node) -> Items:
    return [
        {
            "name": user.name,
            "password_hash": user.password_hash.decode("ascii"),
            "hashing_algorithm": user.hashing_algorithm,
            "tags": list(user.tags),
            "limits": dict(user.limits),
        }
        for user in node.users.all()
    ]


def permissions(node: Node) -> Items:
    return [
        {
            "user": user.name,
            "vhost": vhost,
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }
        for user in node.users.all()
        for vhost, permission in sorted(user.permissions.items())
    ]


def topic_permissions(node: Node) -> Items:
    return [
        {
            "user": user.name,
            "vhost": vhost,
            "exchange": exchange,
            "write": permission.write,
            "read": permission.read,
        }
        for user in node.users.all()
        for (vhost, exchange), permission in sorted(user.topic_permissions.items())
    ]


def parameters(node: Node, vhost: str | None) -> Items:
    """With the operator policies and the limits of virtual hosts."""
    found: Items = []
    for one in node.parameters.all(vhost):
        if one.component != POLICY:
            item: Document = {"component": one.component, "name": one.name, "value": one.value}
            found.append(item if vhost is not None else {"vhost": one.vhost, **item})
    return found


def policies(node: Node, vhost: str | None) -> Items:
    found: Items = []
    for policy in node.policies.all(vhost):
        item: Document = {
            "name": policy.name,
            "pattern": policy.pattern,
            "apply-to": policy.apply_to,
            "definition": dict(policy.definition),
            "priority": policy.priority,
        }
        found.append(item if vhost is not None else {"vhost": policy.vhost, **item})
    return found


def is_exported(end: Destination) -> bool:
    """Not what goes with its connection, is predeclared, or was made by a plugin for itself, as federation's are."""
    if isinstance(end, Queue):
        return end.owner is None
    assert isinstance(end, Exchange)
    return end.arguments.get(INTERNAL_PURPOSE) is None and end.name != "" and not end.name.startswith(RESERVED)


def exchanges(vhost: VHost) -> Items:
    return [
        {
            "name": exchange.name,
            "type": exchange.type_name,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": json_of_table(exchange.arguments),
        }
        for _, exchange in sorted(vhost.exchanges.items())
        if is_exported(exchange)
    ]


def queues(vhost: VHost) -> Items:
    return [
        {
            "name": queue.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": arguments_with_type(queue),
        }
        for _, queue in sorted(vhost.queues.items())
        if is_exported(queue)
    ]


def arguments_with_type(queue: Queue) -> Document:
    """The arguments of a queue as JSON, with its type, as another broker may have another default."""
    arguments = json_of_table(queue.arguments)
    return {**arguments, QUEUE_TYPE: arguments.get(QUEUE_TYPE, queue.rules.type)}


def bindings(vhost: VHost) -> Items:
    """Those between what is exported, and between that and the predeclared exchanges, which are everywhere."""
    found: Items = []
    for _, source in sorted(vhost.exchanges.items()):
        if not (is_exported(source) or source.name.startswith(RESERVED)):
            continue
        for _, binding in sorted(source.outgoing.items()):
            end = binding.destination
            if is_exported(end) or (isinstance(end, Exchange) and end.name.startswith(RESERVED)):
                found.append(
                    {
                        "source": source.name,
                        "destination": end.name,
                        "destination_type": end.kind,
                        "routing_key": binding.routing_key,
                        "arguments": json_of_table(binding.arguments),
                    }
                )
    return found
