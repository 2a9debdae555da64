"""Unacknowledged messages and moves of messages over HTTP."""

from typing import Any

import pytest

from tests.support.http import Api
from warren.broker.core.queues.queue import Queue
from warren.broker.session import move_messages as move_module
from warren.broker.session.move_messages import FULL, Move, MoveStep

PUBLISH = "/exchanges/%2F/amq.default/publish"
MOVE = "/warren/queues/%2F/q/move"
UNACKED = "/warren/queues/%2F/q/unacked"


def payloads(api: Api, queue: str) -> list[str]:
    return [message["payload"] for message in api.messages(queue)]


def move(api: Api, count: int = 100, **destination: Any) -> Any:
    answer = api.post(MOVE, {"destination": destination, "count": count})
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture
def queues(api: Api) -> Api:
    for name in ("q", "other"):
        api.put(f"/queues/%2F/{name}", {"durable": True})
    return api


# Moves


def test_all_messages_move_in_order_with_their_properties(queues: Api) -> None:
    properties = {"delivery_mode": 2, "headers": {"a": 1}, "message_id": "m", "user_id": "guest"}
    queues.publish("q", "1", "2", "3", **properties)
    assert move(queues, queue="other") == {"moved": 3, "messages_ready": 0, "problem": ""}
    moved = queues.messages("other")
    assert [one["payload"] for one in moved] == ["1", "2", "3"]
    assert moved[0]["properties"] == properties
    assert (moved[0]["exchange"], moved[0]["routing_key"], moved[0]["redelivered"]) == ("", "other", False)
    source = queues.get("/queues/%2F/q").json
    assert (source["messages"], source["messages_persistent"], source["message_bytes_persistent"]) == (0, 0, 0)
    assert queues.get("/queues/%2F/other").json["messages_persistent"] == 3


def test_a_number_of_messages_moves_and_the_rest_stays(queues: Api) -> None:
    queues.publish("q", "1", "2", "3")
    assert move(queues, 2, queue="other") == {"moved": 2, "messages_ready": 1, "problem": ""}
    assert (payloads(queues, "other"), payloads(queues, "q")) == (["1", "2"], ["3"])


def test_messages_move_to_an_exchange_with_a_routing_key_or_their_own(queues: Api) -> None:
    queues.post("/bindings/%2F/e/amq.topic/q/other", {"routing_key": "q"})
    queues.post("/bindings/%2F/e/amq.topic/q/other", {"routing_key": "new"})
    queues.publish("q", "1", "2")
    assert move(queues, 1, exchange="amq.topic")["moved"] == 1
    assert move(queues, exchange="amq.topic", routing_key="new")["moved"] == 1
    found = [(one["exchange"], one["routing_key"]) for one in queues.messages("other")]
    assert found == [("amq.topic", "q"), ("amq.topic", "new")]


def test_an_unroutable_message_stays_and_ends_the_move(queues: Api) -> None:
    queues.post("/bindings/%2F/e/amq.headers/q/other", {"arguments": {"x-match": "all", "go": 1}})
    queues.publish("q", "1", headers={"go": 1})
    queues.publish("q", "2", "3")
    answer = move(queues, exchange="amq.headers")
    assert (answer["moved"], answer["messages_ready"]) == (1, 2)
    assert answer["problem"] == "no binding of exchange 'amq.headers' in vhost '/' with routing key 'q' matches"
    got = queues.messages("q")
    assert [(one["payload"], one["redelivered"]) for one in got] == [("2", False), ("3", False)]


def test_a_full_destination_ends_the_move_in_order(queues: Api) -> None:
    queues.put("/queues/%2F/small", {"arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}})
    queues.publish("q", "1", "2", "3", "4")
    answer = move(queues, queue="small")
    assert answer == {"moved": 2, "messages_ready": 2, "problem": "the destination refuses more messages: it is full"}
    assert (payloads(queues, "small"), payloads(queues, "q")) == (["1", "2"], ["3", "4"])


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_move_to_several_queues_leaves_no_copies_where_one_is_full(queues: Api, overflow: str) -> None:
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"}
    arguments = {"x-max-length": 1, "x-overflow": overflow, **dead_letters}
    queues.put("/queues/%2F/small", {"arguments": arguments})
    for name in ("other", "small"):
        queues.post(f"/bindings/%2F/e/amq.fanout/q/{name}", {})
    queues.publish("q", "1", "2", "3")
    for moved in (1, 0, 0):
        assert move(queues, exchange="amq.fanout") == {"moved": moved, "messages_ready": 2, "problem": FULL}
    assert (payloads(queues, "small"), payloads(queues, "other"), payloads(queues, "q")) == (["1"], ["1"], ["2", "3"])


def test_a_move_to_itself_is_refused(queues: Api) -> None:
    queues.publish("q", "1")
    assert queues.post(MOVE, {"destination": {"queue": "q"}, "count": 1}).status == 400
    queues.post("/bindings/%2F/e/amq.fanout/q/q", {})
    queues.post("/bindings/%2F/e/amq.fanout/q/other", {})
    answer = move(queues, exchange="amq.fanout")
    assert answer["moved"] == 0 and "leads back to the queue" in answer["problem"]
    assert (payloads(queues, "q"), payloads(queues, "other")) == (["1"], [])


def test_a_time_to_live_and_delivery_attempts_start_anew(queues: Api) -> None:
    queues.put("/queues/%2F/q4", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    queues.publish("q4", "1", expiration="60000", delivery_mode=2)
    got = {"count": 1, "ackmode": "reject_requeue_true", "encoding": "auto"}
    queues.post("/queues/%2F/q4/get", got)
    assert queues.messages("q4")[0]["properties"]["headers"] == {"x-delivery-count": 1}
    queues.peer.clock.advance(50_000)
    queues.post("/warren/queues/%2F/q4/move", {"destination": {"queue": "other"}, "count": 1})
    queues.peer.clock.advance(50_000)
    moved = queues.messages("other")
    assert moved[0]["properties"]["expiration"] == "60000" and not moved[0]["properties"].get("headers")
    queues.peer.clock.advance(10_000)
    assert queues.messages("other") == []


@pytest.mark.pure("replaces a property, which compiled callers do not look up")
def test_a_move_reports_messages_that_the_disk_does_not_return(queues: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    queues.publish("q", "1", "2")
    monkeypatch.setattr(Queue, "stored", property(lambda queue: queue.ready + 3))
    assert move(queues, 1, queue="other") == {"moved": 1, "messages_ready": 1, "problem": ""}
    problem = "the disk does not return 3 messages now"
    assert move(queues, queue="other") == {"moved": 1, "messages_ready": 0, "problem": problem}


def test_expired_messages_do_not_move(queues: Api) -> None:
    queues.publish("q", "old", expiration="1000")
    queues.publish("q", "new")
    queues.peer.clock.advance(2_000)
    assert move(queues, queue="other")["moved"] == 1
    assert payloads(queues, "other") == ["new"]


def test_messages_of_higher_priority_move_first(queues: Api) -> None:
    queues.put("/queues/%2F/p", {"arguments": {"x-max-priority": 5}})
    for payload, priority in (("low", 1), ("high", 5)):
        queues.publish("p", payload, priority=priority)
    assert queues.post("/warren/queues/%2F/p/move", {"destination": {"queue": "other"}, "count": 9}).json["moved"] == 2
    assert payloads(queues, "other") == ["high", "low"]


@pytest.mark.parametrize(
    ("permissions", "status"), [(("", "amq.default", ""), 401), (("", "", "q"), 401), (("", "amq.default", "q"), 200)]
)
def test_a_move_needs_permissions(queues: Api, permissions: tuple[str, str, str], status: int) -> None:
    queues.publish("q", "1")
    queues.peer.add_user("mover", ("management",), permissions)
    answer = queues.post(MOVE, {"destination": {"queue": "other"}, "count": 1}, user="mover")
    assert answer.status == status, answer.body
    assert len(payloads(queues, "q")) == (0 if status == 200 else 1)


@pytest.mark.parametrize(("body", "status"), [
    ({"destination": {}, "count": 1}, 400),
    ({"destination": {"queue": "other", "exchange": "amq.topic"}, "count": 1}, 400),
    ({"destination": {"queue": "other"}, "count": 0}, 400),
    ({"destination": {"queue": "nowhere"}, "count": 1}, 404),
    ({"destination": {"exchange": "nowhere"}, "count": 1}, 404),
])  # fmt: skip
def test_an_invalid_move_is_refused(queues: Api, body: Any, status: int) -> None:
    queues.publish("q", "1")
    assert queues.post(MOVE, body).status == status
    assert payloads(queues, "q") == ["1"]


def test_nothing_moves_during_an_alarm(queues: Api) -> None:
    queues.publish("q", "1")
    queues.peer.node.alarms.set("memory")
    for path, body in (
        (MOVE, {"destination": {"queue": "other"}, "count": 1}),
        (PUBLISH, {"routing_key": "q", "properties": {}, "payload": "2", "payload_encoding": "string"}),
    ):
        answer = queues.post(path, body)
        assert answer.status == 503 and answer.headers["retry-after"], "it is not refused for good"
        assert answer.json["reason"].endswith("now: the broker is low on memory")
    queues.peer.node.alarms.clear("memory")
    assert payloads(queues, "q") == ["1"]


def test_a_move_to_a_topic_that_the_user_may_not_write_is_refused_during_an_alarm_too(queues: Api) -> None:
    queues.publish("q", "1")
    queues.peer.add_user("mover", ("management",), ("", ".*", ".*"))
    queues.peer.node.users.set_topic_permission("mover", "/", "amq.topic", "^a$", "")
    queues.peer.node.alarms.set("memory")
    for key, status in (("a", 503), ("b", 401)):
        body = {"destination": {"exchange": "amq.topic", "routing_key": key}, "count": 1}
        assert queues.post(MOVE, body, user="mover").status == status


def test_an_alarm_that_begins_during_a_move_leaves_its_count(queues: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    queues.publish("q", *map(str, range(5)))
    monkeypatch.setattr(move_module, "SLICE", 2)
    alarms, step = queues.peer.node.alarms, Move.step

    def with_alarm(self: Move, limit: int) -> MoveStep:
        result = step(self, limit)
        alarms.set("memory")
        return result

    monkeypatch.setattr(Move, "step", with_alarm)
    problem = "nothing can be moved now: the broker is low on memory"
    assert move(queues, queue="other") == {"moved": 2, "messages_ready": 3, "problem": problem}
    assert queues.get("/queues/%2F/other").json["messages"] == 2


def test_an_alarm_that_begins_during_a_job_leaves_its_count(queues: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    queues.publish("q", "1")
    monkeypatch.setattr(move_module, "are_few", lambda *_: False)  # so that a job moves it
    alarms, begin = queues.peer.node.alarms, Move._move_in_steps

    def with_alarm(self: Move, *rest: Any) -> None:
        begin(self, *rest)
        alarms.set("memory")

    monkeypatch.setattr(Move, "_move_in_steps", with_alarm)
    assert move(queues, queue="other") == {"moved": 1, "messages_ready": 0, "problem": ""}


def test_messages_before_one_that_the_user_may_not_write_are_moved_and_counted(queues: Api) -> None:
    for key in ("a", "b"):
        queues.post("/bindings/%2F/e/amq.topic/q/q", {"routing_key": key})
        body = {"routing_key": key, "properties": {}, "payload": key, "payload_encoding": "string"}
        assert queues.post("/exchanges/%2F/amq.topic/publish", body).json == {"routed": True}
        queues.delete(f"/bindings/%2F/e/amq.topic/q/q/{key}")
        queues.post("/bindings/%2F/e/amq.topic/q/other", {"routing_key": key})
    queues.peer.add_user("mover", ("management",), ("", ".*", ".*"))
    queues.peer.node.users.set_topic_permission("mover", "/", "amq.topic", "^a$", "")
    body = {"destination": {"exchange": "amq.topic"}, "count": 9}
    answers = [queues.post(MOVE, body, user="mover") for _ in range(2)]
    assert (answers[0].json["moved"], answers[0].json["messages_ready"]) == (1, 1)
    assert answers[0].json["problem"] and answers[1].status == 401, "nothing is moved the second time"
    assert (payloads(queues, "other"), payloads(queues, "q")) == (["a"], ["b"])


# Unacknowledged messages and ages


def test_unacked_messages_are_listed_with_consumer_channel_and_age(queues: Api) -> None:
    client = queues.peer.connect()
    channel = client.channel()
    queues.publish("q", "one", "three")
    channel.get("q", no_ack=False)
    queues.sample()
    queues.peer.clock.advance(20_000)
    channel.consume("q", consumer_tag="reader")
    queues.sample()
    listed = queues.get(UNACKED).json
    fields = ("delivery_tag", "consumer_tag", "payload_bytes", "age")
    assert [[one[field] for field in fields] for one in listed] == [[1, "", 3, 20], [2, "reader", 5, 0]]
    assert listed[0]["channel_details"]["connection_name"] == queues.get("/connections").json[0]["name"]
    assert [one["delivery_tag"] for one in queues.get(f"{UNACKED}?limit=1").json] == [1]
    assert queues.get(f"{UNACKED}?limit=0").status == queues.get(f"{UNACKED}?limit=x").status == 400
    assert queues.get("/warren/queues/%2F/other/unacked").json == []
    assert queues.get("/overview").json["object_totals"]["channels"] == 1, "those of the requests are closed"


def test_messages_of_an_exclusive_queue_are_not_shown(queues: Api) -> None:
    channel = queues.peer.connect().channel()
    channel.declare("own", exclusive=True)
    queues.publish("own", "secret")
    channel.consume("own")
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    refused = [
        queues.get("/warren/queues/%2F/own/unacked"),
        queues.post("/queues/%2F/own/get", get),
        queues.delete("/queues/%2F/own/contents"),
        queues.post("/warren/queues/%2F/own/move", {"destination": {"queue": "other"}, "count": 1}),
        queues.post("/bindings/%2F/e/amq.topic/q/own", {"routing_key": "#"}),
    ]
    assert [one.status for one in refused] == [400] * 5
    assert all("cannot obtain exclusive access to locked queue 'own'" in one.text for one in refused)


def test_the_age_of_the_oldest_ready_message(queues: Api) -> None:
    def age() -> Any:
        return queues.get("/queues/%2F/q").json.get("oldest_ready_message_age")

    assert age() is None
    queues.publish("q", "1")
    assert age() is None  # not sampled yet
    for _ in range(3):
        queues.sample()
        queues.peer.clock.advance(5_000)
    assert age() == 15
    queues.publish("q", "2")
    queues.sample()
    queues.peer.clock.advance(5_000)
    channel = queues.peer.connect().channel()
    got = channel.get("q", no_ack=False)
    assert got is not None
    assert age() == 5
    channel.reject(got.tag, requeue=True)
    channel.sync()
    assert age() == 20  # it is the same message as before
    queues.delete("/queues/%2F/q/contents")
    assert age() is None
    queues.publish("q", "3")
    assert age() == 0
