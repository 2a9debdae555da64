"""A broker process and those who are not to harm it: without a password, with few rights, or on one connection."""

import base64
import http.client
import json
from contextlib import closing
from pathlib import Path

import pika
import pytest

from tests.support.logging_broker import Broker

pytestmark = pytest.mark.sockets

PATIENCE_S = 20
UPSTREAM = "/api/parameters/federation-upstream/%2F/up"
REQUESTS = 100


def basic(user: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()}


def asked(broker: Broker, method: str, path: str, body: object = None, user: str = "guest") -> bytes:
    with closing(http.client.HTTPConnection(broker.ready["http"][0], timeout=PATIENCE_S)) as connection:
        connection.request(method, path, json.dumps(body), basic(user))
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        return answer.read()


def test_an_answer_without_content_has_no_length_and_the_connection_goes_on(broker: Broker) -> None:
    (address,) = broker.ready["http"]
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE_S)) as connection:
        for _ in range(2):
            connection.request("POST", "/api/definitions", b"{}", basic("guest"))
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (204, b"")
            assert answer.getheader("content-length") is None and answer.getheader("transfer-encoding") is None


def test_the_document_costs_no_more_than_its_sending(broker: Broker) -> None:
    """Without a password: it was made anew for each request, which cost as much as thirty small ones."""

    def cost(path: str) -> float:
        with closing(http.client.HTTPConnection(broker.ready["http"][0], timeout=PATIENCE_S)) as connection:
            before = processor_s(broker)
            for _ in range(REQUESTS):
                connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
                assert connection.getresponse().read()
            return processor_s(broker) - before

    for path in ("/api/version", "/api/openapi.json", "/api/"):
        cost(path)  # libraries and documents are made with the first
    assert cost("/api/openapi.json") + cost("/api/") < 10 * max(cost("/api/version"), 0.05)


def processor_s(broker: Broker) -> float:
    """User and system time of the process so far; field 14 and 15 of /proc/PID/stat, in hundredths of a second."""
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_readers_of_events_and_policymakers_see_no_password_of_an_upstream(broker: Broker) -> None:
    asked(broker, "PUT", "/api/users/maker", {"password": "maker", "tags": "policymaker"})
    asked(broker, "PUT", "/api/permissions/%2F/maker", {"configure": ".*", "write": ".*", "read": ".*"})
    host, _, port = broker.ready["amqp"][0].rpartition(":")
    credentials = pika.PlainCredentials("maker", "maker")
    with closing(pika.BlockingConnection(pika.ConnectionParameters(host, int(port), "/", credentials))) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.event", "parameter.set")
        asked(broker, "PUT", UPSTREAM, {"value": {"uri": "amqp://bob:secret@127.0.0.1:1"}})
        _, properties, _ = next(channel.consume(queue, inactivity_timeout=PATIENCE_S))
        assert properties is not None
        assert properties.headers["value"] == {"uri": "amqp://bob:[redacted]@127.0.0.1:1"}
    assert json.loads(asked(broker, "GET", UPSTREAM, user="maker"))["value"] == properties.headers["value"]
    assert b"secret" in asked(broker, "GET", UPSTREAM)
