"""A document with any error changes nothing, and the error names the entry."""

from typing import Any

import pytest

from tests.support.definitions import new_node, with_sections
from tests.support.recording_observer import RecordingObserver
from warren.broker.amqp.errors import Invalid, Unknown
from warren.broker.core.definitions.exporter import export_definitions
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.node.node import Node
from warren.broker.core.policies import policies

REFUSED: list[tuple[str, dict[str, Any], str]] = [  # section, an entry after valid ones, the error
    ("users", {"name": "u", "password_hash": "a"}, 'invalid password hash: not base64 (user: "u")'),
    ("users", {"name": "u", "password_hash": "$2b$12$abc", "hashing_algorithm": "Bcrypt"},
     'invalid password hash: not base64 (user: "u")'),
    ("users", {"name": "", "password_hash": ""}, 'the name of a user has 1 to 255 octets (user: "")'),
    ("users", {"password_hash": ""}, 'Key "name" not found in users'),
    ("users", {"name": 5}, "name should be binary, actually was 5"),
    ("users", {"name": "u", "tags": 5}, 'tags should be a list, actually was 5 (user: "u")'),
    ("users", {"name": "u", "tags": [5]}, 'tags should be binary, actually was 5 (user: "u")'),
    ("users", {"name": "u", "limits": {"max-connections": "many"}},
     'max-connections should be a number, actually was <<"many">> (user: "u")'),
    ("vhosts", {"name": "x" * 256}, f'name has 0 to 255 octets (vhost: "{"x" * 256}")'),
    ("vhosts", {"name": "w", "metadata": {"default_queue_type": "stream"}},
     "default queue type 'stream' is not supported (vhost: \"w\")"),
    ("vhosts", {"name": "w", "limits": {"bogus": 1}},
     'Validation failed\n\nUnrecognised terms [{<<"bogus">>,1}] in limits (vhost: "w")'),
    ("permissions", {"user": "alice", "vhost": "x", "configure": "", "write": "", "read": ""},
     'Please create virtual host "x" prior to importing definitions. (vhost: "x" / user: "alice")'),
    ("permissions", {"user": "x", "vhost": "v", "configure": "", "write": "", "read": ""},
     'User "x" does not exist (vhost: "v" / user: "x")'),
    ("permissions", {"user": "alice", "vhost": "v", "configure": "(", "write": "", "read": ""},
     'regular expression \'(\' is invalid (vhost: "v" / user: "alice")'),
    ("topic_permissions", {"user": "alice", "vhost": "v", "exchange": "t", "write": "("},
     'Key "read" not found in topic_permissions (vhost: "v" / user: "alice" / exchange: "t")'),
    ("parameters", {"vhost": "v", "component": "bogus", "name": "n", "value": 1},
     'Validation failed\n\ncomponent bogus not found (vhost: "v" / component: "bogus" / key: "n")'),
    ("parameters", {"vhost": "v", "component": "federation-upstream", "name": "n", "value": {}},
     'Validation failed\n\nKey "uri" not found in n (vhost: "v" / component: "federation-upstream" / key: "n")'),
    ("parameters", {"vhost": "v", "component": "policy", "name": "n", "value": {}},
     'policies may not be set using this method (vhost: "v" / component: "policy" / key: "n")'),
    ("global_parameters", {"name": "cluster_name", "value": 1},
     'Validation failed\n\ncluster_name should be binary, actually was 1 (key: "cluster_name")'),
    ("policies", {"vhost": "v", "name": "p", "pattern": "^q", "definition": {}},
     'Validation failed\n\nno policy provided (vhost: "v" / policy: "p")'),
    ("policies", {"vhost": "v", "name": "p", "pattern": "^q", "definition": {"max-length": -1}},
     'Validation failed\n\n-1 is not a valid maximum length (vhost: "v" / policy: "p")'),
    ("policies", {"vhost": "v", "name": "p", "pattern": "^q"},
     'Key "definition" not found in policies (vhost: "v" / policy: "p")'),
    ("exchanges", {"vhost": "v", "name": "x", "type": "x-unknown"},
     'unknown exchange type \'x-unknown\' (vhost: "v" / exchange: "x")'),
    ("exchanges", {"vhost": "v", "name": "x", "type": "topic", "durable": "yes"},
     'durable should be boolean, actually was <<"yes">> (vhost: "v" / exchange: "x")'),
    ("exchanges", {"vhost": "v", "name": "x", "type": "topic", "arguments": {"alternate-exchange": 1}},
     "invalid type 'long' for arg 'alternate-exchange' in exchange 'x' in vhost 'v' (vhost: \"v\" / exchange: \"x\")"),
    ("queues", {"vhost": "v", "name": "q2", "arguments": {"x-message-ttl": "soon"}},
     "invalid arg 'x-message-ttl' for queue 'q2' in vhost 'v': \"expected integer, got longstr\" "
     '(vhost: "v" / queue: "q2")'),
    ("queues", {"vhost": "v", "name": "q2", "type": "stream"},
     "invalid arg 'x-queue-type' for queue 'q2' in vhost 'v': "
     '"streams are not supported by this broker: use a classic or a quorum queue" (vhost: "v" / queue: "q2")'),
    ("queues", {"vhost": "v", "name": "q2", "type": "quorum", "durable": False},
     "invalid property 'non-durable' for queue 'q2' in vhost 'v' (vhost: \"v\" / queue: \"q2\")"),
    ("queues", {"vhost": "v", "name": "q2", "arguments": 1}, 'arguments should be a map (vhost: "v" / queue: "q2")'),
    ("bindings", {"vhost": "v", "source": "x", "destination": "q", "destination_type": "queue", "routing_key": "k"},
     'no exchange \'x\' in vhost \'v\' (vhost: "v" / source: "x" / destination: "q" / routing key: "k")'),
    ("bindings", {"vhost": "v", "source": "t", "destination": "x", "destination_type": "queue"},
     'no queue \'x\' in vhost \'v\' (vhost: "v" / source: "t" / destination: "x")'),
    ("bindings", {"vhost": "v", "source": "t", "destination": "q", "destination_type": "topic"},
     "destination_type should be one of queue, exchange, actually was topic "
     '(vhost: "v" / source: "t" / destination: "q")'),
    ("bindings",
     {"vhost": "v", "source": "h", "destination": "q", "destination_type": "queue", "arguments": {"x-match": "some"}},
     'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x '
     '(vhost: "v" / source: "h" / destination: "q")'),
    ("bindings",
     {"vhost": "v", "source": "t", "destination": "q", "destination_type": "queue", "routing_key": "k" * 256},
     f'routing_key has 0 to 255 octets (vhost: "v" / source: "t" / destination: "q" / routing key: "{"k" * 256}")'),
]  # fmt: skip


def with_item(section: str, item: object) -> dict[str, Any]:
    """Return a whole document, with this entry after the valid ones."""
    document = with_sections()
    document[section].append(item)
    return document


def refusal(node: Node, document: object, vhost: str | None = None) -> str:
    """Return the error; nothing has changed and no observer was notified."""
    watcher = RecordingObserver()
    node.observers.add(watcher)
    before = export_definitions(node)
    with pytest.raises(Invalid) as raised:
        import_definitions(node, document, vhost)
    assert export_definitions(node) == before and not watcher.take_changes()
    return raised.value.text


@pytest.mark.parametrize(("section", "item", "text"), REFUSED, ids=[f"{line[0]}-{n}" for n, line in enumerate(REFUSED)])
def test_one_invalid_entry_refuses_the_whole_document(section: str, item: dict[str, Any], text: str) -> None:
    assert refusal(new_node(), with_item(section, item)) == text


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "definitions should be a map"),
        (None, "definitions should be a map"),
        ({"queues": {}}, "queues should be a list, actually was #{}"),
        ({"queues": "q"}, 'queues should be a list, actually was <<"q">>'),
        ({"queues": ["q"]}, 'queues should be a list of maps, has <<"q">>'),
        ({"users": [{"name": "\ud800"}]}, 'name is not UTF-8 (user: "\ud800")'),
    ],
)
def test_what_is_no_document_is_refused(document: object, text: str) -> None:
    assert refusal(new_node(), document) == text


def test_an_import_into_an_unknown_vhost_is_refused() -> None:
    with pytest.raises(Unknown) as raised:
        import_definitions(new_node(), {}, "x")
    assert raised.value.text == 'Virtual host "x" does not exist'


def test_a_document_with_more_queues_than_its_vhost_may_have_is_refused_unless_it_sets_the_limit() -> None:
    node = new_node()
    import_definitions(node, with_sections())
    document = {"queues": [{"vhost": "v", "name": f"n{number}"} for number in range(9)]}
    assert refusal(node, document) == (
        'Adding 9 queue(s) to virtual host "v" would exceed the limit of 10 queue(s).\n\n'
        "This virtual host currently has 2 queue(s) defined.\n\nImport aborted!"
    )
    limits = {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 3}}
    import_definitions(node, {**document, "parameters": [limits]})
    assert (len(node.vhosts["v"].queues), node.limits.vhost_queues("v")) == (11, 3)


@pytest.mark.parametrize("operator", [False, True])
def test_a_virtual_host_has_no_more_policies_than_it_may_have(monkeypatch: pytest.MonkeyPatch, operator: bool) -> None:
    monkeypatch.setattr(policies, "POLICIES_LIMIT", 3)
    value = {"pattern": "^a", "definition": {"max-length": 1}, "priority": 0}
    component = {"component": "operator_policy", "value": value} if operator else value

    def document(*names: str, vhost: str = "w") -> dict[str, object]:
        items = [component | {"vhost": vhost, "name": name} for name in names]
        return {"vhosts": [{"name": vhost}], "parameters" if operator else "policies": items}

    node = new_node()
    import_definitions(node, document("a", "b", "c", vhost="v"))
    import_definitions(node, document("a", "b"))
    reason = f"virtual host 'w' may have 3 {'operator ' if operator else ''}policies"
    with pytest.raises(Invalid, match=reason):
        import_definitions(node, document("a", "a", "c", "c", "d"))
    assert len(node.policies.all("w", operator)) == 2
    import_definitions(node, document("a", "c", "c"))
    with pytest.raises(Invalid, match=reason):
        node.policies.set("w", "d", "^a", {"max-length": 1}, operator=operator)
    node.policies.set("w", "c", "^b", {"max-length": 1}, operator=operator)
    assert len(node.policies.all(operator=operator)) == 6


def test_limits_of_the_node_count_what_the_document_adds() -> None:
    node = new_node()
    node.limits.vhosts = 1
    assert refusal(node, with_sections()) == "cannot create vhost 'v': vhost limit of 1 is reached (vhost: \"v\")"
    node.limits.vhosts, node.limits.queues = None, 1
    assert refusal(node, with_sections()).startswith(
        "cannot declare queue 'quorum': queue limit in cluster (1) is reached"
    )
    node.limits.queues, node.limits.exchanges = 2, 16  # 7 in each virtual host, and the event exchange
    assert refusal(node, with_sections()).startswith("cannot declare exchange 'h' in vhost 'v': exchange limit of 16")
    node.limits.exchanges, node.parameters.limits["federation-upstream"] = 17, 1
    more = {"vhost": "v", "component": "federation-upstream", "name": "up2", "value": {"uri": "amqp://c"}}
    assert "component federation-upstream is limited to 1" in refusal(node, with_item("parameters", more))
    import_definitions(node, with_sections())
    assert len(node.vhosts["v"].queues) == 2
