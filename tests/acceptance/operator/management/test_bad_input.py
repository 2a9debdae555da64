"""Bad input is refused quickly, with RabbitMQ's status and text, and changes nothing."""

import json
import time
from typing import Any

import pytest

from tests.support.codec import Typed
from tests.support.http import Api

WITHIN_S = 0.05  # of processor time, as the machine is shared
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
UPSTREAM = "/parameters/federation-upstream/%2F/up"
NO_PATTERNS = "[{key_missing,write},{key_missing,read}]"
NO_VHOST = ("not_found", "vhost_not_found")
MISSING = ("Object Not Found", "Not Found")
BINDING = "/bindings/%2F/e/amq.topic/q/there"
LARGE = {"routing_key": "k" * 5001}
HUGE = "((a{999}){999}){999}"
REGEX = "/queues?page=1&use_regex=true&"
BAD_RANGE = "Invalid range parameters: age 0, incr 5"
NO_COMPONENT = "Validation failed\n\ncomponent nope not found\n"
BAD_PAGE = "Pagination parameters are invalid"
NESTED = json.dumps({"arguments": {"x": 1}}).replace("1", "[" * 200 + "]" * 200).encode()

Row = tuple[str, str, Any, int, str, str | list[str]]
ROWS: list[Row] = [  # method, path, body, status, error, the reason or its beginning
    ("PUT", "/queues/%2F/q", b"{", 400, "bad_request", "not_json"),
    ("PUT", "/queues/%2F/q", b'"{}"', 400, "bad_request", "invalid payload: the request body JSON-decoded to a string"),
    ("PUT", "/queues/%2F/q", b"[" * 65_536, 400, "bad_request", "not_json"),
    ("PUT", "/queues/%2F/q", b"[" * 65_537, 400, "bad_request", "Payload size limit exceeded"),
    ("PUT", "/policies/%2F/p", b"name,value\n" * 20_000, 400, "bad_request", "not_json"),
    ("PUT", "/policies/%2F/p", b"[" * 500_000, 400, "bad_request", "JSON may have 5000 values"),
    ("PUT", "/queues/%2F/q", NESTED, 400, "bad_request", ""),
    ("PUT", "/queues/%2F/q", {"durable": "perhaps"}, 400, "bad_request", ["not_boolean", "perhaps"]),
    ("PUT", "/queues/%2F/q", {"arguments": 5}, 400, "bad_request", "Expected `object | array | null`"),
    ("PUT", "/queues/%2F/q", {"arguments": {"x": 1 << 80}}, 400, "bad_request", ""),
    ("PUT", "/queues/%2F/q", {"arguments": {"x-max-length": "ten"}}, 400, "bad_request", "invalid arg 'x-max-length'"),
    ("PUT", "/queues/%2F/q", {"arguments": {"x-queue-type": "nope"}}, 400, "bad_request", ""),
    ("PUT", "/queues/%2F/" + "q" * 256, {}, 400, "bad_request", ""),
    ("PUT", "/queues/nowhere/q", {}, 404, *NO_VHOST),
    ("GET", "/queues/nowhere", None, 404, *MISSING),
    ("GET", "/queues/%252F/there", None, 404, *MISSING),
    ("PUT", "/exchanges/%2F/x", {"type": "nope"}, 400, "bad_request", "unknown exchange type 'nope'"),
    ("POST", BINDING, LARGE, 400, "bad_request", "Payload size limit exceeded"),
    ("POST", BINDING, {"routing_key": "k" * 256}, 400, "bad_request", ""),
    ("POST", "/bindings/nowhere/e/amq.topic/q/there", {}, 404, *NO_VHOST),
    ("PUT", "/permissions/%2F/guest", {"configure": ".*"}, 400, "bad_request", NO_PATTERNS),
    ("PUT", "/permissions/%2F/guest", ALL | {"read": "("}, 400, "bad_request", ""),
    ("PUT", "/permissions/%2F/guest", ALL | {"read": HUGE}, 400, "bad_request", ""),
    ("PUT", "/permissions/nowhere/guest", ALL, 400, "bad_request", "vhost_or_user_not_found"),
    ("PUT", "/permissions/%2F/nobody", ALL, 400, "bad_request", "vhost_or_user_not_found"),
    *(("GET", path, None, 404, *MISSING) for path in ("/users/nobody/permissions", "/permissions/nowhere/guest")),
    ("GET", "/vhosts/nowhere/permissions", None, 404, *MISSING),
    ("PUT", "/policies/%2F/p", {"pattern": "("}, 400, "bad_request", "[{key_missing,definition}]"),
    ("PUT", "/policies/%2F/p", {"pattern": HUGE, "definition": {"expires": 1}}, 400, "bad_request", ""),
    ("PUT", "/policies/nowhere/p", {"pattern": "", "definition": {"expires": 1}}, 404, *NO_VHOST),
    ("PUT", UPSTREAM, {}, 400, "bad_request", "[{key_missing,value}]"),
    ("PUT", UPSTREAM, {"value": {}}, 400, "bad_request", 'Validation failed\n\nKey "uri" not found in up'),
    ("PUT", UPSTREAM, {"value": {"uri": "amqp://", "max-hops": "x"}}, 400, "bad_request", "Validation failed"),
    ("PUT", UPSTREAM, {"value": {"uri": "amqp://", "nope": 1}}, 400, "bad_request", "Validation failed"),
    ("PUT", "/parameters/nope/%2F/p", {"value": 1}, 400, "bad_request", NO_COMPONENT),
    ("PUT", "/vhost-limits/%2F/max-queues", {"value": "many"}, 400, "bad_request", ""),
    ("PUT", "/vhost-limits/%2F/max-queues", {"value": 1 << 80}, 400, "bad_request", ""),
    ("PUT", "/users/u", {"tags": "", "password_hash": "no hash"}, 400, "bad_request", "invalid password hash"),
    ("PUT", "/users/" + "u" * 5000, {"tags": ""}, 400, "bad_request", ""),
    ("POST", "/definitions", b'{"queues": [{}]}', 400, "bad_request", ""),
    ("POST", "/definitions", b"nope", 400, "bad_request", "failed_to_parse_json"),
    ("POST", "/queues/%2F/there/get", {"count": -1, "ackmode": "x", "encoding": "auto"}, 400, "bad_request", ""),
    ("POST", "/queues/%2F/there/get", {"count": 1, "ackmode": "x", "encoding": "auto"}, 400, "bad_request", "ackmode"),
    ("POST", "/queues/%2F/there/actions", {"action": "sync"}, 400, "bad_request", ["unknown", "sync"]),
    ("POST", "/queues/%2F/nope/actions", {"action": "sync"}, 404, "not_found", "queue_not_found"),
    ("GET", "/queues?page=0", None, 400, "invalid_pagination_parameters", "Invalid pagination parameters"),
    ("GET", "/queues?page=9", None, 400, "page_out_of_range", "Page out of range"),
    ("GET", REGEX + "name=((a%7B999%7D)%7B999%7D)%7B999%7D", None, 400, "bad_request", BAD_PAGE),
    ("GET", REGEX + "name=%5E(%5Cw%7C%5Cw%5Cw)%2B%5B%5E%5Cw%5D%24", None, 400, "bad_request", BAD_PAGE),
    ("GET", "/queues?lengths_age=0&lengths_incr=5", None, 400, "invalid_range_parameters", BAD_RANGE),
    ("DELETE", "/queues/%2F/there?if-unused=perhaps", None, 400, "bad_request", "if-unused should be true or false"),
    ("DELETE", "/queues/%2F/there?if-empty=true", None, 400, "bad_request", "queue 'there' in vhost '/' not empty"),
    ("DELETE", "/connections/nobody", None, 404, *MISSING),
    ("PUT", "/overview", {}, 405, "method_not_allowed", "Method Not Allowed"),
    ("GET", "/nope", None, 404, *MISSING),
]


@pytest.fixture
def filled(api: Api) -> Api:
    """An API with a message in a queue, and a queue name that slow patterns match."""
    channel = api.peer.connect().channel()
    for name in ("there", "there" * 12):
        channel.declare(name, durable=True)
    channel.fill("there", b"x")
    return api


def state(api: Api) -> Any:
    """Everything that a request could change."""
    document = api.get("/definitions").json
    lengths = {queue["name"]: queue["messages"] for queue in api.get("/queues").json}
    return document, lengths, len(api.get("/connections").json)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]} {row[2]!s}"[:70])
def test_it_is_refused_soon_with_a_reason_and_nothing_is_changed(filled: Api, row: Row) -> None:
    method, path, body, status, error, reason = row
    before = state(filled)
    spent = []
    for _ in range(3):
        begun = time.process_time()
        answer = filled.request(method, path, body)
        spent.append(time.process_time() - begun)
        assert answer.error[:2] == (status, error), answer.json
        said = answer.json["reason"]
        assert said.startswith(reason) if isinstance(reason, str) else said == reason, answer.json
    assert min(spent) < WITHIN_S
    assert state(filled) == before


@pytest.mark.parametrize(("method", "path", "body"), [
    ("PUT", "/queues/%2F/q", {}),
    ("DELETE", "/queues/%2F/there", None),
    ("DELETE", "/queues/%2F/there/contents", None),
    ("POST", "/queues/%2F/there/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
    ("POST", BINDING, {}),
    ("PUT", "/exchanges/%2F/x", {}),
    ("DELETE", "/exchanges/%2F/amq.topic", None),
])  # fmt: skip
def test_a_user_without_permission_changes_nothing(filled: Api, method: str, path: str, body: object) -> None:
    filled.peer.add_user("m", ("management",), ("", "", ""))
    before = state(filled)
    begun = time.process_time()
    assert filled.request(method, path, body, user="m").error == (401, "not_authorised", "Access refused.")
    assert time.process_time() - begun < 10 * WITHIN_S
    assert state(filled) == before


@pytest.mark.parametrize(("path", "body"), [
    ("/queues/%2F/%ff", {}),
    ("/exchanges/%2F/%ff", {}),
    ("/vhosts/%ff", {}),
    ("/users/%ff", {"tags": ""}),
    ("/policies/%2F/%ff", {"pattern": "", "definition": {"max-length": 1}}),
    ("/parameters/federation-upstream/%2F/%ff", {"value": {"uri": "amqp://"}}),
    ("/global-parameters/%ff", {"value": 1}),
])  # fmt: skip
def test_a_name_that_is_not_utf8_is_refused(api: Api, path: str, body: object) -> None:
    """Definitions could not contain it, and AMQP cannot name it."""
    status, _, reason = api.put(path, body).error
    assert status == 400 and "UTF-8" in str(reason)


def test_a_binding_key_that_is_not_utf8_is_refused(api: Api) -> None:
    api.put("/queues/%2F/q")
    assert api.post("/bindings/%2F/e/amq.direct/q/q", {"routing_key": "\udcff"}).status == 400
    topic = {"exchange": "\udcff", "write": "", "read": ""}
    assert api.put("/topic-permissions/%2F/guest", topic).status == 400


def test_arguments_that_are_not_utf8_survive_an_export(api: Api) -> None:
    ch = api.peer.connect().channel()
    ch.declare("q", durable=True, arguments={"x-of-mine": Typed("S", b"a\xff\xfe")})
    ch.sync()
    document = api.get("/definitions").json
    other = Api()
    assert other.post("/definitions", document).status == 204
    (queue,) = other.peer.node.vhosts["/"].queues.values()
    assert queue.arguments.get("x-of-mine") == ("S", b"a\xff\xfe")
    assert other.get("/definitions").json == document
    other.close()
