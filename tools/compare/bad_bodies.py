"""Requests with valid JSON of the wrong content: missing keys, wrong types, invalid values."""

from collections.abc import Iterator
from typing import Any

from .http_probes import GET, POLICY, PUBLISH, URI, Probe, V, q

BAD = "compare-bad"

QUEUES: dict[str, Any] = {
    "durable a text": {"durable": "true"},
    "durable a word": {"durable": "yes"},
    "durable a number": {"durable": 1},
    "durable null": {"durable": None},
    "arguments a list": {"arguments": []},
    "arguments a text": {"arguments": "x"},
    "argument null": {"arguments": {"x-message-ttl": None}},
    "ttl a text": {"arguments": {"x-message-ttl": "1000"}},
    "ttl negative": {"arguments": {"x-message-ttl": -1}},
    "ttl too large": {"arguments": {"x-message-ttl": 1 << 40}},
    "ttl a fraction": {"arguments": {"x-message-ttl": 1.5}},
    "expires 0": {"arguments": {"x-expires": 0}},
    "priority 256": {"arguments": {"x-max-priority": 256}},
    "priority -1": {"arguments": {"x-max-priority": -1}},
    "overflow": {"durable": True, "arguments": {"x-overflow": "nosuch"}},
    "queue type": {"durable": True, "arguments": {"x-queue-type": "nosuch"}},
    "queue type boolean": {"arguments": {"x-queue-type": True}},
    "queue mode": {"arguments": {"x-queue-mode": "nosuch"}},
    "dead letter key alone": {"arguments": {"x-dead-letter-routing-key": "k"}},
    "dead letter exchange a number": {"arguments": {"x-dead-letter-exchange": 1}},
    "quorum transient": {"durable": False, "arguments": {"x-queue-type": "quorum"}},
    "quorum auto delete": {"durable": True, "auto_delete": True, "arguments": {"x-queue-type": "quorum"}},
    "quorum with priorities": {"durable": True, "arguments": {"x-queue-type": "quorum", "x-max-priority": 5}},
    "quorum delivery limit text": {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": "x"}},
    "single active consumer text": {"arguments": {"x-single-active-consumer": "x"}},
    "unknown keys": {"nosuch": 1},
    "nested": {"arguments": {"x-nested": {"a": [1, 2, {"b": None}]}}},
    "node": {"node": "nosuch@nowhere"},
}
EXCHANGES: dict[str, Any] = {
    "type unknown": {"type": "compare-unknown-type"},
    "type a number": {"type": 1},
    "no type": {"durable": True},
    "durable a text": {"type": "direct", "durable": "true"},
    "durable a word": {"type": "direct", "durable": "maybe"},
    "internal a number": {"type": "direct", "internal": 1},
    "alternate exchange a number": {"type": "direct", "arguments": {"alternate-exchange": 1}},
    "arguments a text": {"type": "direct", "arguments": "x"},
    "consistent hash": {"type": "x-consistent-hash", "arguments": {"hash-header": "a", "hash-property": "message_id"}},
    "hash property": {"type": "x-consistent-hash", "arguments": {"hash-property": "nosuch"}},
}
BINDINGS: dict[str, Any] = {
    "key a number": {"routing_key": 1},
    "key null": {"routing_key": None},
    "key too long": {"routing_key": "k" * 256},
    "arguments a text": {"routing_key": "k", "arguments": "x"},
    "argument null": {"routing_key": "k", "arguments": {"a": None}},
}
VHOSTS: dict[str, Any] = {
    "tags a number": {"tags": 1},
    "tags a list": {"tags": ["a", "b"]},
    "tracing a text": {"tracing": "true"},
    "tracing a word": {"tracing": "maybe"},
    "description a number": {"description": 1},
    "default queue type": {"default_queue_type": "quorum"},
    "default queue type unknown": {"default_queue_type": "nosuch"},
    "default queue type a number": {"default_queue_type": 1},
    "protected": {"protected_from_deletion": True},
}
USERS: dict[str, Any] = {
    "no tags": {"password": "p"},
    "no password": {"tags": ""},
    "empty password": {"password": "", "tags": ""},
    "password and hash": {"password": "p", "password_hash": "x", "tags": ""},
    "hash no base64": {"password_hash": "%%", "tags": ""},
    "hash short": {"password_hash": "YQ==", "tags": ""},
    "hash null": {"password_hash": None, "tags": ""},
    "password null": {"password": None, "tags": ""},
    "password a number": {"password": 1, "tags": ""},
    "tags a number": {"password": "p", "tags": 1},
    "tags a list of numbers": {"password": "p", "tags": [1]},
    "tags null": {"password": "p", "tags": None},
    "unknown tags": {"password": "p", "tags": "a, b ,administrator"},
    "algorithm": {"password": "p", "tags": "", "hashing_algorithm": "nosuch"},
    "sha512": {"password": "p", "tags": "", "hashing_algorithm": "rabbit_password_hashing_sha512"},
    "permissions": {"password": "p", "tags": "", "permissions": {V: {"configure": "", "write": "", "read": ""}}},
    "permissions unknown vhost": {"password": "p", "tags": "", "permissions": {"nosuch": {"configure": ""}}},
    "permissions incomplete": {"password": "p", "tags": "", "permissions": {V: {"configure": ""}}},
    "limits": {"password": "p", "tags": "", "limits": {"max-connections": 1}},
    "limits unknown": {"password": "p", "tags": "", "limits": {"nosuch": 1}},
    "limits a text": {"password": "p", "tags": "", "limits": {"max-connections": "x"}},
}
PERMISSIONS: dict[str, Any] = {
    "no read": {"configure": "", "write": ""},
    "no configure": {"write": "", "read": ""},
    "bad pattern": {"configure": "[", "write": "", "read": ""},
    "a number": {"configure": 1, "write": "", "read": ""},
    "null": {"configure": None, "write": "", "read": ""},
}
TOPIC_PERMISSIONS: dict[str, Any] = {
    "no exchange": {"write": "", "read": ""},
    "bad pattern": {"exchange": "compare.x", "write": "[", "read": ""},
    "unknown exchange": {"exchange": "nosuch", "write": "a", "read": "b"},
}
POLICIES: dict[str, Any] = {
    "no pattern": {"definition": {}},
    "no definition": {"pattern": "x"},
    "empty definition": {**POLICY, "definition": {}},
    "definition a list": {**POLICY, "definition": []},
    "definition a text": {**POLICY, "definition": "x"},
    "bad pattern": {**POLICY, "pattern": "["},
    "pattern a number": {**POLICY, "pattern": 1},
    "priority a text": {**POLICY, "priority": "x"},
    "priority a numeral": {**POLICY, "priority": "3"},
    "priority a fraction": {**POLICY, "priority": 1.5},
    "priority null": {**POLICY, "priority": None},
    "apply-to unknown": {**POLICY, "apply-to": "nosuch"},
    "apply-to a number": {**POLICY, "apply-to": 1},
    "unknown key": {**POLICY, "definition": {"nosuch": 1}},
    "ttl a text": {**POLICY, "definition": {"message-ttl": "x"}},
    "ttl negative": {**POLICY, "definition": {"message-ttl": -1}},
    "max-length a fraction": {**POLICY, "definition": {"max-length": 1.5}},
    "overflow": {**POLICY, "definition": {"overflow": "nosuch"}},
    "dead-letter-exchange a number": {**POLICY, "definition": {"dead-letter-exchange": 1}},
    "ha-mode": {**POLICY, "definition": {"ha-mode": "all"}},
    "queue-version": {**POLICY, "definition": {"queue-version": 3}},
    "expires 0": {**POLICY, "definition": {"expires": 0}},
    "delivery-limit": {**POLICY, "definition": {"delivery-limit": -2}},
    "alternate-exchange": {**POLICY, "apply-to": "exchanges", "definition": {"alternate-exchange": "compare.x"}},
    "shards": {**POLICY, "apply-to": "exchanges", "definition": {"shards-per-node": 1, "routing-key": "key"}},
    "shards a text": {**POLICY, "definition": {"shards-per-node": "x"}},
    "shards negative": {**POLICY, "definition": {"shards-per-node": -1}},
    "routing-key alone": {**POLICY, "definition": {"routing-key": "key"}},
    "routing-key a number": {**POLICY, "definition": {"shards-per-node": 1, "routing-key": 1}},
    "federation set and upstream": {
        **POLICY,
        "definition": {"federation-upstream": "a", "federation-upstream-set": "all"},
    },
    "unknown keys beside": {**POLICY, "nosuch": 1},
    "classic queues": {**POLICY, "apply-to": "classic_queues"},
    "quorum queues": {**POLICY, "apply-to": "quorum_queues"},
    "streams": {**POLICY, "apply-to": "streams"},
    "all": {**POLICY, "apply-to": "all"},
}
UPSTREAMS: dict[str, Any] = {
    "no value": {},
    "value a text": {"value": "x"},
    "value null": {"value": None},
    "value empty": {"value": {}},
    "unknown key": {"value": {"uri": URI, "nosuch": 1}},
    "uri a number": {"value": {"uri": 1}},
    "ack-mode": {"value": {"uri": URI, "ack-mode": "nosuch"}},
    "expires a text": {"value": {"uri": URI, "expires": "x"}},
    "name and component beside": {"component": "x", "name": "y", "vhost": "z", "value": {"uri": URI}},
}
LIMITS: dict[str, Any] = {
    "value a text": {"value": "x"},
    "value a numeral": {"value": "5"},
    "value a fraction": {"value": 1.5},
    "value -1": {"value": -1},
    "value -2": {"value": -2},
    "value null": {"value": None},
    "value a boolean": {"value": True},
}
PUBLISHES: dict[str, Any] = {
    **{f"no {name}": {key: PUBLISH[key] for key in PUBLISH if key != name} for name in PUBLISH},
    "payload a number": {**PUBLISH, "payload": 1},
    "payload null": {**PUBLISH, "payload": None},
    "base64": {**PUBLISH, "payload": "dGV4dA==", "payload_encoding": "base64"},
    "no base64": {**PUBLISH, "payload": "%%%", "payload_encoding": "base64"},
    "encoding": {**PUBLISH, "payload_encoding": "nosuch"},
    "properties a list": {**PUBLISH, "properties": []},
    "properties a text": {**PUBLISH, "properties": "x"},
    "delivery mode a text": {**PUBLISH, "properties": {"delivery_mode": "2"}},
    "delivery mode": {**PUBLISH, "properties": {"delivery_mode": 2}},
    "priority too large": {**PUBLISH, "properties": {"priority": 300}},
    "expiration a number": {**PUBLISH, "properties": {"expiration": 1000}},
    "expiration a word": {**PUBLISH, "properties": {"expiration": "x"}},
    "user id": {**PUBLISH, "properties": {"user_id": "nosuch"}},
    "headers": {**PUBLISH, "properties": {"headers": {"a": 1, "b": [1, "x"], "c": {"d": True}}}},
    "headers a text": {**PUBLISH, "properties": {"headers": "x"}},
    "header null": {**PUBLISH, "properties": {"headers": {"a": None}}},
    "unknown property": {**PUBLISH, "properties": {"nosuch": 1}},
    "key too long": {**PUBLISH, "routing_key": "k" * 256},
    "key a number": {**PUBLISH, "routing_key": 1},
    "unroutable": {**PUBLISH, "routing_key": "nosuch"},
    "all properties": {
        **PUBLISH,
        "properties": {
            "content_type": "text/plain",
            "content_encoding": "utf-8",
            "correlation_id": "c",
            "reply_to": "r",
            "expiration": "100000",
            "message_id": "m",
            "type": "t",
            "app_id": "a",
            "cluster_id": "cl",
            "delivery_mode": 2,
            "priority": 4,
            "timestamp": 1700000000,
            "headers": {"h": "x"},
        },
    },
}
GETS: dict[str, Any] = {
    **{f"no {name}": {key: GET[key] for key in GET if key != name} for name in GET},
    "ackmode": {**GET, "ackmode": "nosuch"},
    "encoding": {**GET, "encoding": "nosuch"},
    "encoding base64": {**GET, "encoding": "base64"},
    "count 0": {**GET, "count": 0},
    "count -1": {**GET, "count": -1},
    "count a text": {**GET, "count": "x"},
    "count a numeral": {**GET, "count": "1"},
    "count a fraction": {**GET, "count": 1.5},
    "truncate": {**GET, "truncate": 2},
    "truncate a text": {**GET, "truncate": "x"},
    "truncate -1": {**GET, "truncate": -1},
    "old ackmode": {"count": 1, "requeue": True, "encoding": "auto"},
    "reject": {**GET, "ackmode": "reject_requeue_true"},
    "ack": {**GET, "ackmode": "ack_requeue_false", "count": 2},
}
DEFINITIONS: dict[str, Any] = {
    "unknown vhost": {"queues": [{"name": "q", "vhost": "compare-nosuch", "durable": True, "auto_delete": False}]},
    "queues an object": {"queues": {}},
    "queue without a name": {"queues": [{"vhost": V, "durable": True, "auto_delete": False, "arguments": {}}]},
    "queue without arguments": {"queues": [{"name": "compare-imported", "vhost": V, "durable": True}]},
    "user without a hash": {"users": [{"name": "compare-imported", "tags": ""}]},
    "exchange type": {
        "exchanges": [{"name": "compare-imported", "vhost": V, "type": "compare-unknown-type", "durable": True}]
    },
    "binding to nothing": {
        "bindings": [
            {"source": "compare.x", "vhost": V, "destination": "nosuch", "destination_type": "queue"}
            | {"routing_key": "", "arguments": {}}
        ]
    },
    "unknown section": {"nosuch": []},
    "parameter": {"parameters": [{"vhost": V, "component": "nosuch", "name": "x", "value": {}}]},
    "vhost": {"vhosts": [{"name": "compare-imported"}]},
    "permissions of nobody": {
        "permissions": [{"user": "nosuch", "vhost": V, "configure": "", "write": "", "read": ""}]
    },
}
# method, path, route, bodies
TABLES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("PUT", f"/queues/{V}/{BAD}", "/queues/{vhost}/{queue}", QUEUES),
    ("PUT", f"/exchanges/{V}/{BAD}", "/exchanges/{vhost}/{exchange}", EXCHANGES),
    ("POST", f"/bindings/{V}/e/compare.x/q/compare.q", "/bindings/{vhost}/e/{exchange}/q/{queue}", BINDINGS),
    ("PUT", f"/vhosts/{BAD}", "/vhosts/{name}", VHOSTS),
    ("PUT", f"/users/{BAD}", "/users/{user}", USERS),
    ("PUT", f"/permissions/{V}/compare-hash", "/permissions/{at}/{user}", PERMISSIONS),
    ("PUT", f"/topic-permissions/{V}/compare-hash", "/topic-permissions/{at}/{user}", TOPIC_PERMISSIONS),
    ("PUT", f"/policies/{V}/{BAD}", "/policies/{vhost}/{name}", POLICIES),
    ("PUT", f"/operator-policies/{V}/{BAD}", "/operator-policies/{vhost}/{name}", POLICIES),
    ("PUT", f"/parameters/federation-upstream/{V}/{BAD}", "/parameters/{component}/{vhost}/{name}", UPSTREAMS),
    ("PUT", f"/vhost-limits/{V}/max-connections", "/vhost-limits/{vhost}/{limit}", LIMITS),
    ("PUT", f"/vhost-limits/{V}/nosuch", "/vhost-limits/{vhost}/{limit} nosuch", {"value": {"value": 1}}),
    ("PUT", "/user-limits/compare-hash/max-connections", "/user-limits/{user}/{limit}", LIMITS),
    ("PUT", "/user-limits/compare-hash/nosuch", "/user-limits/{user}/{limit} nosuch", {"value": {"value": 1}}),
    ("POST", f"/exchanges/{V}/amq.default/publish", "/exchanges/{vhost}/{exchange}/publish", PUBLISHES),
    ("POST", f"/queues/{V}/other/get", "/queues/{vhost}/{queue}/get", GETS),
    ("POST", f"/definitions/{V}", "/definitions/{name}", DEFINITIONS),
    ("POST", "/definitions", "/definitions", DEFINITIONS),
)
# Objects must be deleted before the next body is sent to the same name.
REMADE = ("/queues/{vhost}/{queue}", "/exchanges/{vhost}/{exchange}", "/vhosts/{name}", "/users/{user}")


def probes() -> Iterator[Probe]:
    """Yield every body of every table; a created object is read and deleted."""
    for method, path, route, bodies in TABLES:
        for note, body in bodies.items():
            yield Probe(method, path, body, note=note, route=route)
            if route in REMADE or route.startswith(("/policies", "/operator-policies")):
                yield Probe("GET", f"{path}?disable_stats=true", note=f"after {note}", route=route)
                yield Probe("DELETE", path, note=f"after {note}", route=route)
    yield from names()


def names() -> Iterator[Probe]:
    """Yield names that are reserved, empty or long."""
    for name in ("amq.compare", "", "q" * 256, "compare é", "compare/slash"):
        shown = name[:20]
        yield Probe("PUT", f"/queues/{V}/{q(name)}", {}, note=f"name {shown!r}", route="/queues/{vhost}/{queue}")
        yield Probe(
            "PUT",
            f"/exchanges/{V}/{q(name)}",
            {"type": "direct"},
            note=f"name {shown!r}",
            route="/exchanges/{vhost}/{exchange}",
        )
    for name in ("amq.default", "amq.direct"):
        route = "/exchanges/{vhost}/{exchange}"
        yield Probe("PUT", f"/exchanges/{V}/{name}", {"type": "fanout"}, note=f"put {name}", route=route)
        yield Probe("DELETE", f"/exchanges/{V}/{name}", note=f"delete {name}", route=route)
        yield Probe("GET", f"/exchanges/{V}/{name}?disable_stats=true", note=name, route=route)
    bound = f"/bindings/{V}/e/amq.default/q/compare.q"
    route = "/bindings/{vhost}/e/{exchange}/q/{queue}"
    yield Probe("GET", bound, note="default exchange", route=route)
    yield Probe("POST", bound, {"routing_key": "x"}, note="default exchange", route=route)
    yield Probe("DELETE", f"{bound}/compare.q", note="default exchange", route=route + "/{props}")
    for component in ("nosuch", "policy", "operator_policy", "vhost-limits", "federation", "user-limits"):
        path = f"/parameters/{component}/{V}/{BAD}"
        route = "/parameters/{component}/{vhost}/{name}"
        yield Probe("PUT", path, {"value": {"a": 1}}, note=component, route=route)
        yield Probe("GET", path, note=component, route=route)
        yield Probe("GET", f"/parameters/{component}/{V}", note=component, route="/parameters/{component}/{vhost}")
        yield Probe("DELETE", path, note=component, route=route)
