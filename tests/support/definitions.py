"""An empty node, and a document of definitions with objects of every kind."""

import copy
import json
from typing import Any

from warren.broker.core.access.passwords import hash_password
from warren.broker.core.access.users import Users
from warren.broker.core.definitions.exporter import export_definitions
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.node.node import Node

from .clock import FakeClock
from .hashing import FakeHashing

SECRET_HASH = hash_password("secret", b"salt").decode()
SECTIONS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"),
    *("exchanges", "queues", "bindings"),
)

# fmt: off
DEFINITIONS: dict[str, Any] = {
    "rabbitmq_version": "4.0.5",
    "users": [
        {"name": "alice", "password_hash": SECRET_HASH, "hashing_algorithm": "rabbit_password_hashing_sha256",
         "tags": ["management", "policymaker"], "limits": {"max-connections": 5}},
        {"name": "nobody", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []},
    ],
    "vhosts": [
        {"name": "/", "limits": [], "metadata": {"description": "Default virtual host", "tags": []}},
        {"name": "v", "limits": [["max-queues", 10]], "metadata": {"description": "for tests", "tags": ["a", "b"],
         "default_queue_type": "quorum"}},
    ],
    "permissions": [{"user": "alice", "vhost": "v", "configure": "^a", "write": ".*", "read": ""}],
    "topic_permissions": [{"user": "alice", "vhost": "v", "exchange": "t", "write": "^a\\.", "read": ".*"}],
    "parameters": [
        {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 10}},
        {"vhost": "v", "component": "federation-upstream", "name": "up", "value": {"uri": ["amqp://a", "amqp://b"]}},
        {"vhost": "v", "component": "federation-upstream-set", "name": "set", "value": [{"upstream": "up"}]},
        {"vhost": "v", "component": "operator_policy", "name": "short", "value": {"pattern": "^q",
         "definition": [["max-length", 9]], "priority": 0, "apply-to": "queues"}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "west"}, {"name": "mqtt_port", "value": {"a": [1, None]}}],
    "policies": [
        {"vhost": "v", "name": "ttl", "pattern": "^q", "apply-to": "all", "definition": {"message-ttl": 1000},
         "priority": 3},
    ],
    "exchanges": [
        {"name": "t", "vhost": "v", "type": "topic", "durable": True, "auto_delete": False,
         "arguments": {"alternate-exchange": "h"}},
        {"name": "h", "vhost": "v", "type": "headers", "durable": True, "auto_delete": True, "arguments": {}},
    ],
    "queues": [
        {"name": "q", "vhost": "v", "type": "classic", "durable": True, "auto_delete": False,
         "arguments": {"x-max-priority": 5, "odd": [1, True, "s", None, 1.5, {"deep": [1 << 40]}]}},
        {"name": "quorum", "vhost": "v", "type": "quorum", "durable": True, "auto_delete": False,
         "arguments": {"x-queue-type": "quorum"}},
    ],
    "bindings": [
        {"source": "t", "vhost": "v", "destination": "q", "destination_type": "queue", "routing_key": "a.#",
         "arguments": {}},
        {"source": "h", "vhost": "v", "destination": "quorum", "destination_type": "queue", "routing_key": "",
         "arguments": {"x-match": "any", "n": 5}},
        {"source": "amq.fanout", "vhost": "v", "destination": "t", "destination_type": "exchange", "routing_key": "",
         "arguments": {}},
    ],
}
# fmt: on


def new_node() -> Node:
    """A node without any objects, also without virtual hosts."""
    return Node("warren@test", "warren@test", FakeClock(), Journal(), Users(frozenset(), FakeHashing()))


def with_sections(**sections: Any) -> dict[str, Any]:
    """A copy of the document with these sections in place of its own."""
    return copy.deepcopy(DEFINITIONS) | sections


def as_text(node: Node, vhost: str | None = None) -> str:
    """The exported definitions as the text of a file."""
    return json.dumps(export_definitions(node, vhost))
