"""Messages over HTTP."""

import asyncio
import base64
from typing import Any

import pytest

from tests.support.http import Api, asgi_scope, call_application
from warren.broker.amqp.errors import Unreadable
from warren.broker.session import checked_operations
from warren.plugins.management.api import messages

PUBLISH = "/exchanges/%2F/amq.default/publish"
GET = "/queues/%2F/q/get"


def message(**changed: Any) -> dict[str, Any]:
    return {"properties": {}, "routing_key": "q", "payload": "hello", "payload_encoding": "string"} | changed


def got(api: Api, count: int = 10, ackmode: str = "ack_requeue_false", **more: Any) -> Any:
    answer = api.post(GET, {"count": count, "ackmode": ackmode, "encoding": "auto"} | more)
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture
def queue(api: Api) -> Api:
    api.put("/queues/%2F/q")
    return api


def test_a_message_keeps_all_its_properties(queue: Api) -> None:
    properties = {"delivery_mode": 2, "headers": {"a": 1, "b": "x"}, "expiration": "60000", "type": "t", "priority": 3}
    assert queue.post(PUBLISH, message(properties=properties)).json == {"routed": True}
    where = {"exchange": "", "routing_key": "q", "redelivered": False, "message_count": 0, "properties": properties}
    assert got(queue) == [where | {"payload_bytes": 5, "payload": "hello", "payload_encoding": "string"}]
    assert got(queue) == []


def test_a_message_for_no_queue_is_not_routed(api: Api) -> None:
    assert api.post(PUBLISH, message()).json == {"routed": False}


def test_binary_payloads_are_base64_in_both_directions(queue: Api) -> None:
    encoded = base64.b64encode(b"\xff\x00\xfe").decode()
    for _ in range(2):
        queue.post(PUBLISH, message(payload=encoded, payload_encoding="base64"))
    (first,) = got(queue, 1)
    assert (first["payload"], first["payload_encoding"], first["properties"]) == (encoded, "base64", [])
    queue.post(PUBLISH, message(payload="text"))
    (_, second) = got(queue, encoding="base64", truncate=2)
    assert (second["payload"], second["payload_bytes"]) == (base64.b64encode(b"te").decode(), 4)


@pytest.mark.parametrize(("changed", "reason"), [
    ({"payload": 5}, "payload_not_string"),
    ({"payload_encoding": "hex"}, ["unsupported_encoding", "hex"]),
    ({"payload_encoding": "base64", "payload": "!"}, ["not_base64", "!"]),
    ({"properties": {"priority": "high"}}, ["not_int", "priority"]),
    ({"properties": {"expiration": 5}}, ["not_string", "expiration"]),
    ({"properties": {"headers": 5}}, "arguments should be a map"),
    ({"properties": {"user_id": "other"}}, "406 PRECONDITION_FAILED - user_id property set to 'other' but"),
])  # fmt: skip
def test_a_refused_publish_gets_the_reason(queue: Api, changed: dict[str, Any], reason: str | list[str]) -> None:
    status, error, said = queue.post(PUBLISH, message(**changed)).error
    assert (status, error) == (400, "bad_request")
    assert said.startswith(reason) if isinstance(reason, str) else said == reason


def test_properties_that_fit_no_frame_are_refused_and_all_others_reach_a_client(queue: Api) -> None:
    """No client could receive such a message, as a content header is one frame."""
    largest = 131_072 - 22 - 2 - 4 - 2 - 5  # flags, length of the table, name, type and length of the value
    for size in (largest + 1, 1_000_000):
        status, error, reason = queue.post(PUBLISH, message(properties={"headers": {"a": "x" * size}})).error
        assert (status, error) == (400, "bad_request")
        assert reason == f"properties of {size + 13} bytes do not fit a frame of this broker"
    assert queue.post(PUBLISH, message(properties={"headers": {"a": "x" * largest}})).status == 200
    method = queue.peer.connect().channel().get("q")
    assert method is not None


def test_a_key_that_is_missing_is_named(queue: Api) -> None:
    body = message()
    del body["payload"]
    assert queue.post(PUBLISH, body).error == (400, "bad_request", "[{key_missing,payload}]")
    assert queue.post(GET, {"count": 1, "encoding": "auto", "requeue": "true"}).error[2] == "[{key_missing,ackmode}]"
    assert queue.post(GET, {"count": 1, "encoding": "auto", "ackmode": "nope"}).status == 400


def test_a_missing_object_is_named(api: Api) -> None:
    answer = api.post("/exchanges/%2F/nope/publish", message())
    assert answer.error == (404, "not_found", "exchange_not_found")
    answer = api.post("/queues/%2F/nope/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})
    assert answer.error == (404, "not_found", "queue_not_found")


def test_a_queue_that_is_full_refuses(api: Api) -> None:
    api.put("/queues/%2F/q", {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}})
    assert api.post(PUBLISH, message()).json == {"routed": True}
    assert api.post(PUBLISH, message()).error[2] == "rejected Unable to publish message. Check queue limits."


def payloads(messages: list[Any]) -> list[tuple[str, bool]]:
    return [(one["payload"], one["redelivered"]) for one in messages]


def test_messages_that_are_given_back_keep_their_order(queue: Api) -> None:
    queue.publish("q", "a", "b", "c")
    first = got(queue, 2, "ack_requeue_true")
    assert payloads(first) == [("a", False), ("b", False)]
    assert [one["message_count"] for one in first] == [2, 1]
    assert payloads(got(queue, 5, "reject_requeue_true")) == [("a", True), ("b", True), ("c", False)]
    assert payloads(got(queue, 1, "reject_requeue_false")) == [("a", True)]
    assert payloads(got(queue, 5)) == [("b", True), ("c", True)]


def test_a_count_may_be_a_word_and_each_message_is_had_once(queue: Api) -> None:
    queue.publish("q", "a", "b", "c")
    assert [one["payload"] for one in got(queue, "2", "ack_requeue_true", truncate="1")] == ["a", "b"]  # type: ignore[arg-type]
    assert queue.get("/queues/%2F/q").json["messages"] == 3


def test_a_rejected_message_goes_to_the_dead_letter_exchange(queue: Api) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    queue.put("/queues/%2F/first", {"arguments": arguments})
    queue.post(PUBLISH, message(routing_key="first"))
    body = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(queue.post("/queues/%2F/first/get", body).json) == 1
    (dead,) = got(queue)
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


def test_the_callers_permissions_count(queue: Api) -> None:
    queue.peer.add_user("m", ("management",), ("", "", ""))
    status, error, reason = queue.post(PUBLISH, message(), user="m").error
    assert (status, error) == (400, "bad_request") and reason.startswith("403 ACCESS_REFUSED - write access")
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert queue.post(GET, body, user="m").error == (401, "not_authorised", "Access refused.")


@pytest.mark.parametrize("ackmode", ["ack_requeue_false", "ack_requeue_true"])
def test_more_messages_than_an_answer_has_stay(queue: Api, ackmode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BODIES_BYTES", 2_000)
    queue.publish("q", *["x" * 1_000] * 3)
    body = {"count": 3, "ackmode": ackmode, "encoding": "auto"}
    status, error, reason = queue.post(GET, body).error
    assert (status, error) == (400, "bad_request") and reason.startswith("3 messages of 1000 bytes are more than the ")
    assert queue.post(GET, body | {"count": messages.MESSAGES_LIMIT + 1}).status == 400
    assert queue.get("/queues/%2F/q").json["messages_ready"] == 3
    assert [one["payload_bytes"] for one in got(queue, 3, truncate=10)] == [1_000] * 3


def test_a_single_message_of_any_size_is_returned(queue: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BODIES_BYTES", 2_000)
    queue.post(PUBLISH, message(payload="x" * 9_000))
    assert len(got(queue, messages.MESSAGES_LIMIT)) == 1


def test_an_answer_ends_with_the_message_that_makes_it_too_long(queue: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "ANSWER_BYTES", 3_000)
    queue.publish("q", *["x" * size for size in (10, 5_000, 10)])
    assert [(one["payload_bytes"], one["message_count"]) for one in got(queue)] == [(10, 2), (5_000, 1)]
    assert queue.get("/queues/%2F/q").json["messages_ready"] == 1


@pytest.mark.parametrize("text", ["ä" * 300_000, "a" + "€" * 200_000, "x" * 192 * 1024, '"\\\n' * 100_000])
def test_long_payloads_are_complete(queue: Api, text: str) -> None:
    queue.post(PUBLISH, message(payload=text))
    (first,) = got(queue, ackmode="ack_requeue_true")
    assert first["payload"] == text
    (second,) = got(queue, ackmode="ack_requeue_true", encoding="base64")
    assert base64.b64decode(second["payload"]) == text.encode()
    encoded = base64.b64encode(text.encode() + b"\xff").decode()
    queue.post(PUBLISH, message(payload=encoded, payload_encoding="base64"))
    assert [one["payload"] for one in got(queue)] == [text, encoded]


def test_messages_are_taken_in_slices_and_requeued_if_the_client_disconnects(queue: Api) -> None:
    """Messages taken before the client disconnects are requeued in order."""
    queue.publish("q", *map(str, range(3 * messages.SLICE_MESSAGES)))
    core = queue.peer.node.vhosts["/"].queues["q"]
    out = []

    async def visit() -> None:
        body = {"count": 1_000, "ackmode": "ack_requeue_true", "encoding": "auto"}
        asking = asyncio.ensure_future(call_application(queue.application, *asgi_scope("POST", GET, body)))
        while not asking.done():
            await asyncio.sleep(0)
            out.append(core.unacked)
            if core.unacked > messages.SLICE_MESSAGES:
                asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(visit())
    steps = [later - earlier for earlier, later in zip(out, out[1:], strict=False)]
    assert max(steps) == messages.SLICE_MESSAGES and core.unacked == 0
    assert [one["payload"] for one in got(queue, 100)] == [str(n) for n in range(3 * messages.SLICE_MESSAGES)]


@pytest.mark.pure("replaces a function")
def test_messages_that_cannot_be_read_now_are_no_empty_queue(queue: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.publish("q", "one", "two")
    readable, get_message = [1], checked_operations.get_message

    def get(*arguments: Any) -> Any:
        if not readable[0]:
            raise Unreadable("queue 'q' in vhost '/' has messages, and none of them can be returned now")
        readable[0] -= 1
        return get_message(*arguments)

    monkeypatch.setattr(checked_operations, "get_message", get)
    assert [one["payload"] for one in got(queue)] == ["one"], "one that was taken is returned"
    answer = queue.post(GET, {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"})
    assert answer.status == 503 and "none of them can be returned now" in answer.json["reason"]
