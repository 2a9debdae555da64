"""A broker process and clients that must not harm it: without a password or with few rights."""

from contextlib import closing
from pathlib import Path

import pika
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.http import Response, basic

pytestmark = pytest.mark.sockets

PATIENCE_S = 20
UPSTREAM = "/parameters/federation-upstream/%2F/up"
REQUESTS = 100


def request(broker: BrokerProcess, method: str, path: str, body: object = None, user: str = "guest") -> Response:
    """Return the response to a request, which must succeed."""
    response = broker.http().request(method, path, body, user)
    assert response.status < 300, response
    return response


def test_an_answer_without_content_has_no_length_and_the_connection_goes_on(broker: BrokerProcess) -> None:
    with closing(broker.http().connect()) as connection:
        for _ in range(2):
            connection.request("POST", "/api/definitions", b"{}", {"Authorization": basic("guest")})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (204, b"")
            assert answer.getheader("content-length") is None and answer.getheader("transfer-encoding") is None


def test_the_document_costs_no_more_than_its_sending(broker: BrokerProcess) -> None:
    """The document needs no password, so it must not be made again for each request."""

    def cost(path: str) -> float:
        with closing(broker.http().connect()) as connection:
            before = processor_s(broker)
            for _ in range(REQUESTS):
                connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
                assert connection.getresponse().read()
            return processor_s(broker) - before

    for path in ("/api/version", "/api/openapi.json", "/api/"):
        cost(path)  # the first request imports libraries and makes documents
    assert cost("/api/openapi.json") + cost("/api/") < 10 * max(cost("/api/version"), 0.05)


def processor_s(broker: BrokerProcess) -> float:
    """User and system time of the process so far: fields 14 and 15 of /proc/PID/stat, in hundredths of a second."""
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_readers_of_events_and_policymakers_see_no_password_of_an_upstream(broker: BrokerProcess) -> None:
    request(broker, "PUT", "/users/maker", {"password": "maker", "tags": "policymaker"})
    request(broker, "PUT", "/permissions/%2F/maker", {"configure": ".*", "write": ".*", "read": ".*"})
    credentials = pika.PlainCredentials("maker", "maker")
    with closing(pika.BlockingConnection(pika.ConnectionParameters(*broker.address, "/", credentials))) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.event", "parameter.set")
        request(broker, "PUT", UPSTREAM, {"value": {"uri": "amqp://bob:secret@127.0.0.1:1"}})
        _, properties, _ = next(channel.consume(queue, inactivity_timeout=PATIENCE_S))
        assert properties is not None
        assert properties.headers["value"] == {"uri": "amqp://bob:[redacted]@127.0.0.1:1"}
    assert request(broker, "GET", UPSTREAM, user="maker").json["value"] == properties.headers["value"]
    assert b"secret" in request(broker, "GET", UPSTREAM).body
