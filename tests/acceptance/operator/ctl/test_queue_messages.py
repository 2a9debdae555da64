"""Commands for the messages of a queue, which RabbitMQ's lack: unacknowledged ones, and moves."""

import json
from typing import Any

import pika
import pytest

from tests.support.polling import until
from tests.support.warrenctl import Ready, Warrenctl, parameters
from warren.broker.ctl.api_client import API
from warren.broker.ctl.errors import APIError

pytestmark = pytest.mark.sockets


def test_messages_move_to_a_queue_and_to_an_exchange(ready: Ready, warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("from", "to", "keyed"):
            channel.queue_declare(queue)
        channel.queue_bind("keyed", "amq.direct", "new")
        for number in range(9):
            channel.basic_publish("", "from", b"%d" % number)
        banner = "Moving messages of queue 'from' to queue 'to' in vhost '/' ..."
        assert warrenctl("move_messages --count 4 from to") == (0, f"{banner}\nMoved 4 messages\n", "")
        assert [channel.basic_get("to", auto_ack=True)[2] for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        moved = (0, "Moved 5 messages\n", "")
        assert by_http("-s move_messages --routing-key new --to-exchange from amq.direct") == moved
        assert channel.queue_declare("keyed", passive=True).method.message_count == 5
        status, out, err = by_http("-s move_messages --to-exchange keyed amq.fanout")
        assert (status, out) == (69, "") and err.startswith("Error:\nMoved 0 messages, then: ")
        for destination in ("nowhere", "--to-exchange nowhere"):
            kind = "exchange" if "exchange" in destination else "queue"
            missing = (64, "", f"Error:\nDestination {kind} not found\n")
            for queue in ("keyed", "to"):  # the second one is empty
                assert by_http(f"-s move_messages {queue} {destination}") == missing
        assert by_http("-s move_messages nowhere to") == (64, "", "Error:\nQueue not found\n")
        assert channel.queue_declare("keyed", passive=True).method.message_count == 5


def test_a_move_cut_short_prints_its_count(ready: Ready, by_http: Warrenctl, monkeypatch: pytest.MonkeyPatch) -> None:
    post = API.post

    def refuse_second(self: API, *path: str, **more: Any) -> Any:
        if more["body"]["count"] == 2:
            return post(self, *path, body=more["body"] | {"count": 1})
        raise APIError(503, "service_unavailable", "nothing can be moved now: the broker is low on memory")

    monkeypatch.setattr(API, "post", refuse_second)
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("first", "second"):
            channel.queue_declare(queue)
        for body in (b"1", b"2"):
            channel.basic_publish("", "first", body)
        reason = "nothing can be moved now: the broker is low on memory"
        assert by_http("-s move_messages first second") == (69, "", f"Error:\nMoved 1 messages, then: {reason}\n")
        assert channel.queue_declare("second", passive=True).method.message_count == 1


def test_unacknowledged_messages_have_a_consumer(ready: Ready, warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        channel.queue_declare("held", auto_delete=True)
        for body in (b"one", b"second"):
            channel.basic_publish("", "held", body)
        channel.basic_consume("held", lambda *_: None, consumer_tag="holder")

        def listed() -> list[dict[str, object]]:
            connection.process_data_events(0)
            found: list[dict[str, object]] = json.loads(by_http("list_unacked_messages --formatter json held")[1])
            return found

        until(lambda: len(listed()) == 2, "two unacknowledged messages")
        first, second = listed()
        assert (first["consumer_tag"], first["user"], first["payload_bytes"]) == ("holder", "guest", 3)
        assert (first["routing_key"], second["delivery_tag"], second["payload_bytes"]) == ("held", 2, 6)
        status, out, err = warrenctl("list_unacked_messages --limit 1 held")
        lines = out.splitlines()
        assert (status, err) == (0, "")
        assert lines[0] == "Listing unacknowledged messages of queue 'held' in vhost '/' ..."
        assert lines[1].split("\t")[:2] == ["delivery_tag", "consumer_tag"]
        assert [line.split("\t")[:2] for line in lines[2:]] == [["1", "holder"]]
        assert by_http("-s list_unacked_messages --limit 0 held")[0] != 0
        assert by_http("-s list_unacked_messages nowhere") == (64, "", "Error:\nQueue not found\n")
