"""Import of definitions: defaults, objects that are left alone, and objects that are replaced."""

import json
from collections import deque
from typing import Any

import pytest

from tests.support.definitions import DEFINITIONS, SECRET_HASH, new_node, with_sections
from tests.support.recording_observer import RecordingObserver
from warren.broker.amqp.errors import Invalid
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import ARGON2ID, SHA256, hash_password, verify_password
from warren.broker.core.definitions.exporter import IMPORTED_HASH, export_definitions
from warren.broker.core.definitions.importer import LINE_LENGTH, LINES_LENGTH, DefinitionsImport, import_definitions
from warren.broker.core.node.node import Node
from warren.broker.core.policies.parameters import CLUSTER_ID

MD5 = "rabbit_password_hashing_md5"


@pytest.fixture
def node() -> Node:
    """A node with a virtual host `v` and a user `alice`."""
    made = new_node()
    made.add_vhost("v")
    made.users.add("alice")
    return made


def item(**fields: Any) -> dict[str, Any]:
    return {"vhost": "v", **fields}


def test_a_whole_document_is_imported() -> None:
    node = new_node()
    assert import_definitions(node, DEFINITIONS) == []
    vhost = node.vhosts["v"]
    assert node.cluster_name == "west"
    assert (vhost.metadata.description, vhost.metadata.tags) == ("for tests", ("a", "b"))
    assert node.limits.vhost_queues("v") == 10
    assert node.limits.user_connections("alice") == 5
    alice = node.users.find("alice")
    assert alice.permissions["v"].configure == "^a" and alice.topic_permissions["v"]["t"].write == "^a\\."
    assert vhost.queue("q").effective == {"message-ttl": 1000, "max-length": 9}
    assert vhost.exchange("t").alternate == "h"
    assert [(one.source, one.routing_key) for one in vhost.queue("q").incoming.values()] == [("t", "a.#")]
    assert [one.source for one in vhost.exchange("t").incoming.values()] == ["amq.fanout"]


def test_every_section_is_optional(node: Node) -> None:
    before = export_definitions(node)
    assert import_definitions(node, {}) == []
    for name in DEFINITIONS:
        import_definitions(node, {name: None if name == "rabbitmq_version" else []})
    assert export_definitions(node) == before


def test_observers_are_notified_of_new_objects_but_not_of_unchanged_users_and_parameters() -> None:
    node, watcher = new_node(), RecordingObserver()
    node.observers.add(watcher)
    import_definitions(node, DEFINITIONS)
    notifications = watcher.take_changes()
    assert {"+user alice", "+vhost v", "+permission v alice", "+parameter v policy ttl"} <= set(notifications)
    import_definitions(node, DEFINITIONS)
    assert {line.split()[0] for line in watcher.take_changes()} == {"+vhost", "+permission", "+topicpermission"}


# Exchanges and queues


def test_missing_fields_of_exchanges_and_queues_have_the_defaults_of_rabbitmq(node: Node) -> None:
    import_definitions(node, {"exchanges": [item(name="x", type="fanout")], "queues": [item(name="q")]})
    exchange, queue = node.vhosts["v"].exchange("x"), node.vhosts["v"].queue("q")
    assert (exchange.durable, exchange.auto_delete, exchange.internal) == (True, False, False)
    assert (queue.durable, queue.auto_delete, queue.settings.type, queue.number) == (True, False, "classic", 1)


def test_existing_exchanges_and_queues_stay_as_they_are(node: Node) -> None:
    vhost = node.vhosts["v"]
    exchange = vhost.declare_exchange("x", "topic")
    queue = vhost.declare_queue("q")
    import_definitions(
        node,
        {
            "exchanges": [item(name="x", type="fanout", arguments={"a": 1})],
            "queues": [item(name="q", arguments={"x-message-ttl": 1})],
            "bindings": [item(source="x", destination="q", destination_type="queue", routing_key="k")],
        },
    )
    assert vhost.exchanges["x"] is exchange and vhost.queues["q"] is queue
    assert (exchange.type_name, queue.arguments) == ("topic", Table.EMPTY)
    assert len(queue.incoming) == 1


def test_the_first_of_two_entries_with_the_same_name_is_imported(node: Node) -> None:
    twice = [item(name="q", arguments={"n": number}) for number in (1, 2)]
    binding = item(source="amq.topic", destination="q", destination_type="queue", routing_key="k")
    import_definitions(node, {"queues": twice, "bindings": [binding, binding]})
    queue = node.vhosts["v"].queue("q")
    assert queue.arguments.integer("n") == 1 and len(queue.incoming) == 1


def test_reserved_names_are_skipped_with_a_warning(node: Node) -> None:
    document = {
        "exchanges": [
            item(name="amq.direct", type="direct"),
            item(name="", type="direct"),
            item(name="x", type="topic"),
        ],
        "queues": [item(name="amq.gen-1"), item(name="q")],
        "bindings": [
            item(source="", destination="q", destination_type="queue", routing_key="q"),
            item(source="x", destination="amq.gen-1", destination_type="queue", routing_key=""),
            item(source="x", destination="q", destination_type="queue", routing_key=""),
        ],
        "global_parameters": [{"name": CLUSTER_ID, "value": "theirs"}, {"name": IMPORTED_HASH, "value": "x"}],
    }
    assert import_definitions(node, document) == [
        f"global parameter '{CLUSTER_ID}' is left out: each broker has its own",
        f"global parameter '{IMPORTED_HASH}' is left out: each broker has its own",
        "exchange 'amq.direct' in vhost 'v' is left out: its name is reserved",
        "exchange '' in vhost 'v' is left out: its name is reserved",
        "queue 'amq.gen-1' in vhost 'v' is left out: its name is reserved",
        "binding of the default exchange to queue 'q' in vhost 'v' is left out: each queue has its own",
        "binding of exchange 'x' to queue 'amq.gen-1' in vhost 'v' is left out: there is no queue 'amq.gen-1'",
    ]
    assert list(node.vhosts["v"].queues) == ["q"] and not node.parameters.globals()
    assert len(node.vhosts["v"].queue("q").incoming) == 1


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({}, "quorum"),
        ({"type": "classic"}, "classic"),
        ({"type": "rabbit_classic_queue"}, "classic"),
        ({"type": "quorum"}, "quorum"),
        ({"arguments": {"x-queue-type": "classic"}}, "classic"),
        ({"auto_delete": True}, "classic"),
        ({"durable": False}, "classic"),
    ],
)
def test_a_queue_keeps_its_type_in_a_vhost_with_a_default_type(node: Node, fields: Any, type_: str) -> None:
    vhosts = [{"name": "quorums", "metadata": {"default_queue_type": "rabbit_quorum_queue"}}]
    import_definitions(node, {"vhosts": vhosts, "queues": [{"vhost": "quorums", "name": "q", **fields}]})
    assert node.vhosts["quorums"].queue("q").settings.type == type_


# Users


@pytest.mark.parametrize(
    "tags", [["management", "own"], "management,own", " management , own,", ["management", "own", "own"]]
)
def test_tags_are_a_list_or_a_text_with_commas(node: Node, tags: object) -> None:
    import_definitions(node, {"users": [{"name": "alice", "password_hash": "", "tags": tags}]})
    assert node.users.find("alice").tags == ("management", "own")


def test_a_user_without_password_and_hash_cannot_log_in_as_in_rabbitmq(node: Node) -> None:
    """RabbitMQ 4.0.5 clears the password of an existing user; exports have the hash of each."""
    made = hash_password("secret", b"salt").decode()
    import_definitions(node, {"users": [{"name": "bob", "password_hash": made, "tags": "administrator"}]})
    import_definitions(node, {"users": [{"name": "bob", "tags": "management"}, {"name": "eve", "tags": ""}]})
    for name in ("bob", "eve"):
        assert node.users.find(name).password_hash == b""
    assert node.users.find("bob").tags == ("management",)


@pytest.mark.parametrize("hash_", ["", hash_password("secret", b"salt").decode()])
def test_a_user_with_both_password_and_hash_is_refused(node: Node, hash_: str) -> None:
    with pytest.raises(Invalid, match="both_password_and_password_hash_are_provided"):
        import_definitions(node, {"users": [{"name": "bob", "password": "x", "password_hash": hash_, "tags": ""}]})


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [
        ({}, SHA256),
        ({"rabbitmq_version": "3.6.0"}, SHA256),
        ({"rabbitmq_version": "4.0.5"}, SHA256),
        ({"rabbit_version": "3.5.7"}, MD5),
        ({"rabbit_version": "3.13.0-rc.1"}, SHA256),
        ({"rabbit_version": "unknown"}, SHA256),
    ],
)
def test_a_hash_without_an_algorithm_has_the_default_of_its_version(node: Node, version: Any, algorithm: str) -> None:
    made = hash_password("secret", b"salt", algorithm).decode()
    import_definitions(node, {**version, "users": [{"name": "bob", "password_hash": made, "tags": ""}]})
    assert node.users.find("bob").hashing_algorithm == algorithm


@pytest.mark.parametrize("short", ["SHA256", "SHA512", "MD5"])
def test_lavinmqs_names_of_algorithms_become_rabbitmqs(node: Node, short: str) -> None:
    full = f"rabbit_password_hashing_{short.lower()}"
    made = hash_password("secret", b"salt", full)
    users = [{"name": "bob", "password_hash": made.decode(), "hashing_algorithm": short}]
    import_definitions(node, {"users": users})
    assert (node.users.find("bob").hashing_algorithm, node.users.find("bob").password_hash) == (full, made)


def test_argon2id_hashes_survive_export_and_import(node: Node) -> None:
    made = b"$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$" + b"A" * 20
    node.users.put(node.users.add("bob", made, hashing_algorithm=ARGON2ID).stored())
    other = new_node()
    import_definitions(other, export_definitions(node))
    assert (other.users.find("bob").password_hash, other.users.find("bob").hashing_algorithm) == (made, ARGON2ID)


def test_a_password_in_plain_text_is_hashed(node: Node) -> None:
    import_definitions(node, {"users": [{"name": "bob", "password": "plain", "tags": "administrator"}]})
    bob = node.users.find("bob")
    assert verify_password(bob.password_hash, b"plain", bob.hashing_algorithm)


def test_an_existing_user_is_replaced_and_keeps_permissions(node: Node) -> None:
    alice = node.users.find("alice")
    node.users.set_permission("alice", "v", "a", "b", "c")
    node.limits.set_user("alice", {"max-channels": 3})
    import_definitions(node, {"users": [{"name": "alice", "password_hash": SECRET_HASH, "tags": ["monitoring"]}]})
    assert node.users.find("alice") is alice
    assert (alice.password_hash.decode(), alice.tags, alice.limits) == (
        SECRET_HASH,
        ("monitoring",),
        {"max-channels": 3},
    )
    assert alice.permissions["v"].write == "b"


def test_permissions_and_parameters_are_replaced(node: Node) -> None:
    node.users.set_permission("alice", "v", "a", "b", "c")
    node.policies.set("v", "p", "^q", {"max-length": 1})
    import_definitions(
        node,
        {
            "permissions": [item(user="alice", configure="x", write="y", read="z")],
            "policies": [item(name="p", pattern="^r", definition={"max-length": 2})],
        },
    )
    assert node.users.find("alice").permissions["v"].write == "y"
    policy = node.policies.get("v", "p")
    assert policy is not None
    assert (policy.pattern, policy.priority, policy.apply_to) == ("^r", 0, "all")


# Virtual hosts


def test_only_the_given_metadata_of_an_existing_vhost_is_changed(node: Node) -> None:
    node.update_vhost("v", "old", ("a",), "quorum", True)
    import_definitions(node, {"vhosts": [{"name": "v"}]})
    kept = node.vhosts["v"].metadata
    assert (kept.description, kept.tags, kept.default_queue_type, kept.protected) == ("old", ("a",), "quorum", True)
    given = {"description": "new", "tags": "", "default_queue_type": "undefined"}
    import_definitions(node, {"vhosts": [{"name": "v", "metadata": given, "limits": {"max-queues": 3}}]})
    kept = node.vhosts["v"].metadata
    assert (kept.description, kept.tags, kept.default_queue_type, kept.protected) == ("new", (), "quorum", True)
    assert node.limits.vhost_queues("v") == 3


def test_a_vhost_may_have_its_metadata_beside_its_name_and_be_protected(node: Node) -> None:
    vhosts = [{"name": "w", "description": "old form", "tags": ["t"], "metadata": {"protected_from_deletion": True}}]
    import_definitions(node, {"vhosts": vhosts})
    kept = node.vhosts["w"].metadata
    assert (kept.description, kept.tags, kept.protected) == ("old form", ("t",), True)


def test_one_vhosts_document_goes_into_another_with_whatever_vhost_its_items_name(node: Node) -> None:
    source = new_node()
    import_definitions(source, DEFINITIONS)
    node.add_vhost("w")
    import_definitions(node, json.loads(json.dumps(export_definitions(source, "v"))), "w")
    import_definitions(node, with_sections(), "v")  # of which users and other virtual hosts are not imported
    assert list(node.vhosts) == ["v", "w"] and not node.users.find("alice").permissions
    here, there = export_definitions(node, "w"), export_definitions(source, "v")
    for name in ("parameters", "policies", "queues", "exchanges", "bindings"):
        assert here[name] == there[name]
    assert node.vhosts["w"].metadata.description == ""


def test_items_of_one_vhosts_document_lack_what_a_whole_import_needs() -> None:
    source = new_node()
    import_definitions(source, DEFINITIONS)
    with pytest.raises(Invalid) as raised:
        import_definitions(new_node(), export_definitions(source, "v"))
    assert raised.value.text == 'Key "vhost" not found in exchanges (exchange: "h")'


def test_a_user_keeps_the_limits_of_an_earlier_entry(node: Node) -> None:
    user = {"name": "bob", "password_hash": "", "tags": ""}
    import_definitions(node, {"users": [user | {"limits": {"max-channels": 3}}, user | {"tags": "management"}]})
    bob = node.users.find("bob")
    assert (bob.tags, bob.limits) == (("management",), {"max-channels": 3})


def test_of_very_many_entries_that_are_left_out_the_first_are_named(node: Node) -> None:
    """Each error may be long, too."""
    policy = {"vhost": "v", "name": "p" * 1000, "pattern": "x" * 2000, "definition": {"max-length": "y" * 2000}}
    plan = DefinitionsImport(node, {"policies": [policy] * 1500}, leave_out=True)
    deque(plan.check(), maxlen=0)
    *named, last = plan.warnings
    assert sum(map(len, named)) <= LINES_LENGTH < sum(map(len, named)) + 2 * LINE_LENGTH
    assert last == f"and {1500 - len(named)} more"
