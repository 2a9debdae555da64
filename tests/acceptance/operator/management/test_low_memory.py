"""Declarations over HTTP while memory is low."""

from typing import Any

import pytest

from tests.support.http import Api
from warren.broker.core.telemetry.resource_alarms import MEMORY

BINDING = "/bindings/%2F/e/amq.topic/q/q"
PUBLISH = {"routing_key": "k", "properties": {}, "payload": "", "payload_encoding": "string"}
NEW = (
    ("PUT", "/queues/%2F/new", {}), ("PUT", "/exchanges/%2F/new", {"type": "fanout"}),
    ("POST", BINDING, {"routing_key": "new"}), ("PUT", "/vhosts/new", {}),
    ("POST", "/definitions", {"queues": [{"vhost": "/", "name": "new"}]}),
)  # fmt: skip
EXISTING = (
    ("PUT", "/queues/%2F/q", {}), ("PUT", "/exchanges/%2F/x", {"type": "fanout"}),
    ("POST", BINDING, {"routing_key": "k"}), ("PUT", "/vhosts/%2F", {"description": "changed"}),
    ("PUT", "/policies/%2F/short", {"pattern": "", "definition": {"max-length": 1}}),
    ("POST", "/definitions", {"queues": [{"vhost": "/", "name": "q"}]}),
)  # fmt: skip
REFUSED = (  # by the user worker, who may not configure what begins with "no"
    ("PUT", "/queues/%2F/none", {}, 401),
    ("PUT", "/queues/%2F/amq.new", {}, 401),
    ("PUT", "/queues/%2F/new", {"arguments": {"x-max-length": -5}}, 400),
    ("PUT", f"/queues/%2F/{'n' * 300}", {}, 400),
    ("PUT", "/exchanges/%2F/none", {"type": "fanout"}, 401),
    ("PUT", "/exchanges/%2F/amq.new", {}, 401),
    ("PUT", "/exchanges/%2F/amq.default", {}, 401),
    ("PUT", "/exchanges/%2F/new", {"type": "nonsense"}, 400),
    ("PUT", "/exchanges/%2F/new", {"type": "x-delayed-message"}, 400),
    ("POST", "/bindings/%2F/e/missing/q/q", {"routing_key": "k"}, 404),
    ("POST", "/bindings/%2F/e/amq.topic/q/missing", {"routing_key": "k"}, 404),
    ("POST", "/bindings/%2F/e/amq.topic/q/no", {"routing_key": "k"}, 401),
    ("POST", "/bindings/%2F/e/amq.default/q/q", {"routing_key": "k"}, 401),
    ("POST", BINDING, {"routing_key": "k" * 300}, 400),
    ("POST", "/exchanges/%2F/no/publish", PUBLISH, 400),
    ("POST", "/exchanges/%2F/x/publish", PUBLISH | {"properties": {"user_id": "other"}}, 400),
    ("POST", "/exchanges/%2F/x/publish", PUBLISH | {"properties": {"expiration": "-1"}}, 400),
    ("POST", "/warren/queues/%2F/q/move", {"destination": {"exchange": "no"}, "count": 1}, 401),
    ("POST", "/warren/queues/%2F/q/move", {"destination": {"exchange": "missing"}, "count": 1}, 404),
    ("GET", "/aliveness-test/none", None, 404),
)
OF_THE_SAME_NAME = (  # line ends are no part of it
    ("PUT", "/queues/%2F/q%0A", {}),
    ("PUT", "/exchanges/%2F/x%0A", {"type": "fanout"}),
)


@pytest.fixture
def low(api: Api) -> Api:
    """The API of a broker whose memory is low."""
    for method, path, body in EXISTING:
        assert api.request(method, path, body).status < 300
    api.peer.node.alarms.set(MEMORY)
    return api


@pytest.mark.parametrize(("method", "path", "body"), NEW)
def test_a_new_object_is_refused_for_now(low: Api, method: str, path: str, body: dict[str, Any]) -> None:
    answer = low.request(method, path, body)
    assert answer.status == 503 and answer.headers["retry-after"]
    assert answer.json["reason"] == "nothing new can be declared now: the broker is low on memory"
    low.peer.node.alarms.clear(MEMORY)
    assert low.request(method, path, body).status < 300


@pytest.mark.parametrize(("method", "path", "body"), [*EXISTING, *OF_THE_SAME_NAME])
def test_an_existing_object_is_not(low: Api, method: str, path: str, body: dict[str, Any]) -> None:
    assert low.request(method, path, body).status < 300


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED)
def test_a_final_refusal_is_no_503(low: Api, method: str, path: str, body: Any, status: int) -> None:
    vhost = low.peer.node.vhosts["/"]
    for name in ("no", "q"):
        vhost.declare_queue(name)
    vhost.declare_exchange("no", "fanout")
    low.peer.add_user("worker", ("management",), ("^(?!no)", "^(?!no)", "^(?!no)"))
    answer = low.request(method, path, body, user="worker")
    assert answer.status == status
    low.peer.node.alarms.clear(MEMORY)
    same = low.request(method, path, body, user="worker")
    assert (answer.status, answer.body) == (same.status, same.body)


def test_a_virtual_host_with_a_bad_name_is_refused_for_ever(low: Api) -> None:
    assert low.put(f"/vhosts/{'v' * 300}").status == 400


@pytest.mark.parametrize("alarm", ["memory", "disk"])
def test_a_check_of_aliveness_declares_nothing_during_an_alarm(api: Api, alarm: str) -> None:
    api.peer.node.alarms.set(alarm)
    assert api.get("/aliveness-test/%2F").status == 503
    assert not api.peer.node.vhosts["/"].queues
