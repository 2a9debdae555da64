"""The plan of a migration: the definitions that the target can have, and the reasons for all others."""

from typing import Any

import pytest

from warren.plugins.migration.brokers import QueueName
from warren.plugins.migration.plan import Target, plan

WARREN = Target("Warren", {"direct", "topic", "x-consistent-hash"}, "operator")
RABBITMQ = Target("RabbitMQ", {"direct", "topic"}, "operator")


def queue(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}, **fields}


def exchange(name: str, type_: str = "topic", **fields: Any) -> dict[str, Any]:
    return queue(name, type=type_, internal=False, **fields)


def binding(source: str, destination: str, kind: str = "queue") -> dict[str, Any]:
    ends = {"source": source, "destination": destination, "destination_type": kind}
    return {"vhost": "/", "routing_key": "k", "arguments": {}, **ends}


def user(name: str, algorithm: str = "rabbit_password_hashing_sha256") -> dict[str, Any]:
    return {"name": name, "password_hash": "h", "hashing_algorithm": algorithm, "tags": []}


def test_what_the_target_can_have_is_taken_over_as_it_is() -> None:
    document = {
        "rabbit_version": "4.0.5",
        "users": [user("shop")],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "shop", "vhost": "/", "configure": "", "write": ".*", "read": ".*"}],
        "topic_permissions": [],
        "parameters": [{"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": 9}}],
        "policies": [{"vhost": "/", "name": "ttl", "pattern": "^t", "definition": {"message-ttl": 1}}],
        "queues": [queue("q", arguments={"x-queue-type": "quorum"})],
        "exchanges": [exchange("x")],
        "bindings": [binding("x", "q"), binding("amq.topic", "q"), binding("x", "amq.fanout", "exchange")],
    }
    made = plan(document, WARREN)
    assert made.document == document
    assert (made.queues, made.changes, made.missing) == ([QueueName("/", "q")], [], [])


@pytest.mark.parametrize(
    ("section", "item", "reason"),
    [
        ("queues", queue("amq.gen-x"), "its name is the broker's own"),
        ("queues", queue("temporary", auto_delete=True), "deleted with its last consumer"),
        ("queues", queue("federation: x -> far"), "links of another broker"),
        ("exchanges", exchange("internal", arguments={"x-internal-purpose": "federation"}), "links of another broker"),
        ("users", user("operator"), "stays as it is there"),
        ("global_parameters", {"name": "cluster_name", "value": "old"}, "each broker has its own"),
        ("parameters", {"component": "federation-upstream", "vhost": "/", "name": "u"}, "or both take part"),
    ],
)  # fmt: skip
def test_what_belongs_to_the_old_broker_or_to_clients_stays_there(
    section: str, item: dict[str, Any], reason: str
) -> None:
    made = plan({section: [item]}, WARREN)
    assert made.document[section] == [] and made.missing == [] and made.queues == []
    assert len(made.changes) == 1 and reason in made.changes[0]


@pytest.mark.parametrize(
    ("target", "section", "item", "reason"),
    [
        (WARREN, "queues", queue("s", arguments={"x-queue-type": "stream"}), "Warren has no streams"),
        (WARREN, "exchanges", exchange("x", "x-jms-topic"), "no type x-jms-topic"),
        (WARREN, "parameters", {"component": "shovel", "vhost": "/", "name": "s", "value": {}}, "Warren has none"),
        (RABBITMQ, "exchanges", exchange("x", "x-presence"), "no type x-presence"),
        (RABBITMQ, "users", user("u", "argon2id"), "cannot check a password hashed by argon2id"),
        (RABBITMQ, "policies", queue("p", definition={"federation-deduplicate": True}), "federation-deduplicate"),
    ],
)
def test_what_the_target_cannot_have_is_named(
    target: Target, section: str, item: dict[str, Any], reason: str
) -> None:  # fmt: skip
    made = plan({section: [item]}, target)
    assert made.document[section] == [] and made.changes == []
    assert len(made.missing) == 1 and reason in made.missing[0]


def test_what_exists_at_the_target_with_other_properties_is_named() -> None:
    document = {
        "queues": [
            queue("q", arguments={"x-max-length": 10}),
            queue("safe", type="quorum"),
            queue("new"),
            queue("same"),
        ],
        "exchanges": [exchange("x"), exchange("y")],
    }  # fmt: skip
    made = plan(document, WARREN)
    made.compare(
        [queue("q", durable=False), queue("safe", arguments={"x-queue-type": "classic"}),
         queue("same", arguments={"x-queue-type": "classic"}), queue("new", vhost="other", durable=False)],
        [exchange("x", "direct"), exchange("y")],
    )  # fmt: skip
    assert made.missing == [
        "queue 'q' in vhost '/': exists there with durable false, x-max-length none, not true, 10",
        "queue 'safe' in vhost '/': exists there with type classic, not quorum",
        "exchange 'x' in vhost '/': exists there with type direct, not topic",
    ]
    assert made.document["queues"] == document["queues"] and len(made.queues) == 4


def test_bindings_and_permissions_go_with_what_they_belong_to() -> None:
    document = {
        "users": [user("kept"), user("lost", "argon2id")],
        "permissions": [{"user": name, "vhost": "/"} for name in ("kept", "lost", "operator")],
        "queues": [queue("q"), queue("auto", auto_delete=True)],
        "exchanges": [exchange("x"), exchange("y", "x-presence")],
        "bindings": [binding("x", "q"), binding("x", "auto"), binding("y", "q"), binding("x", "y", "exchange")],
    }
    made = plan(document, RABBITMQ)
    assert made.document["bindings"] == [binding("x", "q")]
    assert [one["user"] for one in made.document["permissions"]] == ["kept", "operator"]


def test_only_chosen_virtual_hosts_are_taken() -> None:
    document = {
        "users": [user("u")],
        "vhosts": [{"name": "/"}, {"name": "other"}],
        "global_parameters": [{"name": "mine", "value": 1}],
        "queues": [queue("q"), queue("q", vhost="other")],
    }
    made = plan(document, WARREN, ["other"])
    assert made.queues == [QueueName("other", "q")]
    assert made.document["vhosts"] == [{"name": "other"}] and made.document["users"] == [user("u")]
    assert made.document["global_parameters"] == []


@pytest.mark.parametrize(
    ("error", "section"),
    [
        ("unknown argument (vhost: \"/\" / queue: \"q\")", "queues"),
        ("not recognised (vhost: \"/\" / policy: \"p\")", "policies"),
        ("component odd not found (vhost: \"/\" / component: \"odd\" / key: \"one\")", "parameters"),
        ("unknown password hashing algorithm (user: \"u\")", "users"),
    ],
)  # fmt: skip
def test_an_object_that_the_target_refuses_is_left_out(error: str, section: str) -> None:
    document = {
        "users": [user("u"), user("v")],
        "permissions": [{"user": "u", "vhost": "/"}],
        "parameters": [{"component": "policy", "vhost": "/", "name": "one"}],
        "policies": [queue("p", definition={}), queue("o", definition={})],
        "queues": [queue("q"), queue("r")],
    }
    made = plan(document, Target("Warren", (), "operator"))
    made.document["parameters"].append({"component": "odd", "vhost": "/", "name": "one"})
    count = len(made.document[section])
    assert made.leave_out(error)
    assert len(made.document[section]) == count - 1 and made.missing == [error]
    assert (QueueName("/", "q") in made.queues) == (section != "queues")
    assert made.document["permissions"] == ([] if section == "users" else document["permissions"])
    assert not made.leave_out(error), "it is not there any more"


def test_an_error_without_a_place_is_not_overlooked() -> None:
    assert not plan({}, WARREN).leave_out("failed_to_parse_json")
