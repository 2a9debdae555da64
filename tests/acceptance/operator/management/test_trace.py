"""The live trace over HTTP: a stream of samples of messages."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse
from typing import Any

from tests.support.broker_process import BrokerProcess
from tests.support.http import basic
from tests.support.polling import until
from warren.plugins.management.framework.http_api import USER_STREAMS_LIMIT


@contextmanager
def traced(broker: BrokerProcess, query: str) -> Iterator[HTTPResponse]:
    """The response of a trace of the virtual host /, which is traced for a second from then on."""
    with closing(broker.http().connect()) as connection:
        connection.request("GET", f"/api/warren/trace/%2F?{query}", headers={"authorization": basic("guest", "guest")})
        response = connection.getresponse()
        assert response.status == 200
        yield response


def next_of(response: HTTPResponse, event: str) -> Any:
    """The next message of this event."""
    while True:
        line = json.loads(response.readline())
        if line.get("event") == event:
            return line


def test_messages_of_a_queue_are_shown_with_their_way(broker: BrokerProcess) -> None:
    with closing(broker.connect()) as client:
        channel = client.channel()
        channel.declare("seen")
        channel.declare("other")
        with traced(broker, "queue=seen") as response:
            channel.publish("", "other", b"hidden")
            channel.publish("", "seen", b"\xff")
            published = next_of(response, "publish")
            assert (published["exchange"], published["queues"], published["user"]) == ("", ["seen"], "guest")
            assert (published["payload"], published["payload_encoding"]) == ("/w==", "base64")
            channel.get("seen")
            assert next_of(response, "deliver")["queue"] == "seen"


def test_a_flood_is_sampled_and_the_rest_is_counted(broker: BrokerProcess) -> None:
    with closing(broker.connect()) as client:
        channel = client.channel()
        channel.declare("flood")
        with traced(broker, "exchange=amq.default") as response:
            channel.fill("flood", *[b"x" * 5000] * 2000)
            assert len(next_of(response, "publish")["payload"]) == 1024
            lines = [json.loads(response.readline()) for _ in range(19)]
            assert {line["event"] for line in lines} == {"publish"}
        assert channel.count("flood") == 2000
        until(lambda: "tracing" in broker.http().get("/vhosts/%2F").json)
        assert broker.http().get("/vhosts/%2F").json["tracing"] is False


def test_a_trace_of_an_unknown_queue_is_refused(broker: BrokerProcess) -> None:
    http = broker.http()
    assert http.get("/warren/trace/%2F?queue=nowhere").status == 404
    assert http.get("/warren/trace/nowhere").status == 404


def test_the_streams_of_a_user_are_limited(broker: BrokerProcess) -> None:
    http = broker.http()
    http.put("/users/other", {"password": "p", "tags": "administrator"})
    with ExitStack() as stack:
        for _ in range(USER_STREAMS_LIMIT):
            stack.enter_context(traced(broker, ""))
        for path in ("/warren/trace/%2F", "/warren/log/stream", "/warren/events"):
            refused = http.get(path)
            assert (refused.status, refused.json["reason"]) == (503, "too many streams are open")
            assert refused.headers["retry-after"]
        assert http.get("/warren/events?duration=0", user="other", password="p").status == 200
        assert http.get("/overview").status == 200
    until(lambda: http.get("/warren/events?duration=0").status == 200)
    until(lambda: http.get("/vhosts/%2F").json["tracing"] is False)


def test_a_page_of_another_site_opens_no_stream(broker: BrokerProcess) -> None:
    for path in ("/warren/trace/%2F", "/warren/log/stream", "/warren/events"):
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
            assert broker.http().get(f"{path}?duration=0", headers=headers).status == 403
        assert broker.http().get(f"{path}?duration=0", headers={"Sec-Fetch-Site": "same-origin"}).status == 200
