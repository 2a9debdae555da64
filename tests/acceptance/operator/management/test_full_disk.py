"""Definitions stored over HTTP while the disk is full: few and short ones of users without the tag administrator."""

from typing import Any

import pytest

from tests.support.http import Api
from warren.broker.core.telemetry import resource_alarms
from warren.broker.core.telemetry.resource_alarms import DISK, LONG_BYTES
from warren.plugins.http.auth import ADMIN, LOCAL
from warren.plugins.management.api import routes

PM = "pm"  # a policymaker
POLICY = {"pattern": "x", "definition": {"max-length": 1}}
UPSTREAM = {"value": {"uri": "amqp://localhost"}}
DECLARATIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "/queues/%2F/new", {}),
    ("PUT", "/exchanges/%2F/new", {"type": "fanout"}),
    ("POST", "/bindings/%2F/e/amq.topic/q/q", {"routing_key": "new"}),
]
# Requests that store something new, by their routes. Those that store nothing, or no definitions, have the reason.
STORING: dict[str, tuple[str, dict[str, Any]] | str] = {
    "PUT /queues/{vhost}/{queue}": ("/queues/%2F/new", {"durable": True}),
    "PUT /exchanges/{vhost}/{exchange}": ("/exchanges/%2F/new", {"type": "fanout", "durable": True}),
    "POST /bindings/{vhost}/e/{exchange}/q/{queue}": ("/bindings/%2F/e/amq.topic/q/q", {"routing_key": "new"}),
    "POST /bindings/{vhost}/e/{source}/e/{destination}": ("/bindings/%2F/e/amq.topic/e/amq.fanout", {}),
    "PUT /policies/{vhost}/{name}": ("/policies/%2F/new", POLICY),
    "PUT /parameters/{component}/{vhost}/{name}": ("/parameters/federation-upstream/%2F/new", UPSTREAM),
    "PUT /global-parameters/{name}": ("/global-parameters/new", {"value": 1}),
    "POST /exchanges/{vhost}/{exchange}/publish": "messages, which every alarm refuses",
    "POST /queues/{vhost}/{queue}/get": "nothing new",
    "POST /warren/queues/{vhost}/{queue}/move": "messages, which every alarm refuses",
    "POST /login": "nothing",
    "GET /aliveness-test/{vhost}": "a message, which every alarm refuses",
}


@pytest.fixture
def full(api: Api) -> Api:
    """The API of a broker whose disk is full, with a durable queue `q` and a policymaker."""
    assert api.put("/queues/%2F/q", {"durable": True}).status == 201
    api.peer.add_user(PM, ("policymaker",))
    api.peer.node.alarms.set(DISK)
    return api


def test_every_route_that_stores_is_refused_for_now(full: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 0)
    served = [one for one in routes().all if one.changes and one.method != "DELETE" and one.guard not in (ADMIN, LOCAL)]
    assert {str(route) for route in served} == set(STORING)
    before = len(full.peer.node.parameters.unsorted())
    requests = [(one.method, *request) for one in served if not isinstance(request := STORING[str(one)], str)]
    for request in requests:
        answer = full.request(*request, user=PM)
        assert answer.status == 503 and answer.headers["retry-after"], request
    assert len(full.peer.node.parameters.unsorted()) == before
    assert "new" not in full.peer.node.parameters.globals()
    full.peer.node.alarms.clear(DISK)
    for request in requests:
        assert full.request(*request, user=PM).status < 300, request


def test_each_object_of_a_policymaker_counts(full: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 3)
    for path, body in (
        ("/policies/%2F/", POLICY),
        ("/parameters/federation-upstream/%2F/", UPSTREAM),
        ("/global-parameters/", {"value": 1}),
    ):
        full.peer.node.alarms.clear(DISK)
        full.peer.node.alarms.set(DISK)
        statuses = [full.put(f"{path}{number}", body, user=PM).status for number in range(4)]
        assert statuses == [201, 201, 201, 503], path
        assert full.delete(f"{path}0", user=PM).status == 204
        full.peer.node.alarms.clear(DISK)
        assert full.put(f"{path}3", body, user=PM).status == 201


@pytest.mark.parametrize(("path", "body"), [
    ("/policies/%2F/long", POLICY | {"pattern": "x" * LONG_BYTES}),
    ("/policies/%2F/" + "n" * LONG_BYTES, POLICY),
    ("/policies/%2F/" + "n" * 800, POLICY | {"definition": {"dead-letter-routing-key": "x" * 200}}),
    ("/parameters/federation-upstream/%2F/long", {"value": {"uri": "amqp://localhost/" + "x" * LONG_BYTES}}),
    ("/parameters/federation-upstream/%2F/" + "n" * LONG_BYTES, UPSTREAM),
    ("/global-parameters/long", {"value": "x" * LONG_BYTES}),
    ("/global-parameters/" + "n" * LONG_BYTES, {"value": 1}),
])  # fmt: skip
def test_a_long_parameter_is_refused_except_for_administrators(full: Api, path: str, body: dict[str, Any]) -> None:
    answer = full.put(path, body, user=PM)
    assert answer.status == 503 and answer.json["reason"].endswith("the broker is low on disk")
    assert full.put(path, body).status == 201


def test_an_administrator_may_store_when_others_may_not(full: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 1)
    assert full.put("/policies/%2F/last", POLICY, user=PM).status == 201
    assert full.put("/policies/%2F/other", POLICY, user=PM).status == 503
    for path, body in (
        ("/policies/%2F/other", POLICY),
        ("/operator-policies/%2F/other", POLICY),
        ("/parameters/operator_policy/%2F/another", {"value": POLICY | {"priority": 0}}),
        ("/parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 9}}),
        ("/vhost-limits/%2F/max-connections", {"value": 9}),
        ("/global-parameters/other", {"value": 1}),
    ):
        assert full.put(path, body).status < 300, path
    definitions = {"policies": [POLICY | {"vhost": "/", "name": "imported"}]}
    assert full.post("/definitions", definitions).status == 204
    assert full.post("/definitions/%2F", definitions).status == 204
    assert full.post("/definitions/%2F", definitions, user=PM).status == 401


def test_a_parameter_is_replaced_by_one_that_is_not_longer(full: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 0)
    alarms = full.peer.node.alarms
    for path, key, body in (
        ("/policies/%2F/one", "pattern", POLICY),
        ("/global-parameters/one", "value", {}),
        ("/parameters/federation-upstream/%2F/one", "value", {}),
    ):
        texts = ("x" * 2_000, "y" * 1_999, "z" * 2_000)
        values = [{"uri": f"amqp://{text}"} if "federation" in path else text for text in texts]
        long, shorter, longer = [body | {key: value} for value in values]
        alarms.clear(DISK)
        assert full.put(path, long, user=PM).status == 201
        alarms.set(DISK)
        assert full.put(path, long, user=PM).status == 204, "it is the same"
        assert full.put(path, shorter, user=PM).status == 204
        assert full.put(path, longer, user=PM).status == 503


@pytest.mark.parametrize(("path", "body", "status"), [
    ("/policies/%2F/bad", {"pattern": "x", "definition": {"nonsense": "x" * LONG_BYTES}}, 400),
    ("/policies/%2F/bad", {"pattern": "(" * LONG_BYTES, "definition": {"max-length": 1}}, 400),
    ("/parameters/nonsense/%2F/bad", {"value": "x" * LONG_BYTES}, 400),
    ("/parameters/federation-upstream/%2F/bad", {"value": {"uri": "nonsense:" + "x" * LONG_BYTES}}, 400),
    ("/global-parameters/cluster_name", {"value": "x" * LONG_BYTES}, 401),
    ("/operator-policies/%2F/bad", POLICY | {"pattern": "x" * LONG_BYTES}, 401),
])  # fmt: skip
def test_some_are_refused_for_good(
    full: Api, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, status: int
) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 0)
    answer = full.put(path, body, user=PM)
    assert answer.status == status
    full.peer.node.alarms.clear(DISK)
    same = full.put(path, body, user=PM)
    assert (answer.status, answer.body) == (same.status, same.body)


def test_transient_objects_are_declared_on_a_full_disk(full: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 0)
    for method, path, body in (
        ("PUT", "/queues/%2F/transient", {"durable": False}),
        ("PUT", "/exchanges/%2F/transient", {"type": "topic", "durable": False}),
        ("POST", "/bindings/%2F/e/amq.topic/q/transient", {"routing_key": "new"}),
        ("POST", "/bindings/%2F/e/transient/q/q", {"routing_key": "new"}),
        ("POST", "/bindings/%2F/e/transient/e/amq.fanout", {"routing_key": "new"}),
    ):
        assert full.request(method, path, body, user=PM).status == 201, path


@pytest.mark.parametrize(("method", "path", "body"), DECLARATIONS)
def test_long_arguments_are_refused(full: Api, method: str, path: str, body: dict[str, Any]) -> None:
    answer = full.request(method, path, body | {"arguments": {"x": "v" * 2_000}})
    assert answer.status == 503 and answer.headers["retry-after"]
    assert answer.json["reason"] == "nothing new can be declared now: the broker is low on disk"
    assert full.request(method, path, body).status < 300
