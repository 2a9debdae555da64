"""KEDA's RabbitMQ scaler: its HTTP requests, and the fields that it decodes.

They follow the source of the scaler, with one field here for each that it reads.
"""

import threading
from urllib.parse import quote

import pika
import pytest

from tests.support.polling import until_result

WITHIN_S = 60


def queue_info(reply):
    """Decode a queue as the scaler's `queueInfo`: numbers must be numbers, missing ones are 0."""
    assert reply.status == 200, reply  # the scaler treats any other status as an error
    assert reply.headers["content-type"].startswith("application/json")
    return decoded(reply.body)


def decoded(queue):
    for key in ("messages", "messages_ready", "messages_unacknowledged"):
        assert isinstance(queue.get(key, 0), int), queue
    assert isinstance(queue["name"], str)
    statistics = queue.get("message_stats", {})
    rates = [statistics.get(kind, {}).get("rate", 0.0) for kind in ("publish_details", "deliver_get_details")]
    assert all(isinstance(rate, int | float) for rate in rates)
    return queue["name"], queue.get("messages", 0), rates


def test_a_queue_by_its_name(api, path, channel):
    channel.queue_declare("jobs/a b")
    for _ in range(3):
        channel.basic_publish("", "jobs/a b", b"x")
    queue = f"/queues/{path}/{quote('jobs/a b', '')}"
    name, _, _ = until_result(lambda: queue_info(api.call("GET", queue)), lambda found: found[1] == 3)
    assert name == "jobs/a b"


@pytest.mark.parametrize(("pattern", "names"), [("^jobs", ["jobs.a", "jobs.b"]), ("b$", ["jobs.b", "web.b"])])
def test_queues_by_a_regular_expression(api, path, channel, pattern, names):
    for name in ("jobs.a", "jobs.b", "web.b"):
        channel.queue_declare(name)
    query = f"?page=1&use_regex=true&pagination=false&name={quote(pattern)}&page_size=100"
    reply = api.call("GET", f"/queues/{path}{query}")
    assert reply.status == 200 and reply.body["page_count"] <= 1, reply
    assert sorted(decoded(queue)[0] for queue in reply.body["items"]) == names


def test_the_message_rate_is_seen_under_load(api, vhost, path, channel):
    channel.queue_declare("q")
    over = threading.Event()
    host, _, port = api.amqp.rpartition(":")

    def publish():
        with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), vhost)) as connection:
            publisher = connection.channel()
            while not over.is_set():
                publisher.basic_publish("", "q", b"x")
                connection.sleep(0.01)

    load = threading.Thread(target=publish, daemon=True)
    load.start()
    try:
        until_result(lambda: queue_info(api.call("GET", f"/queues/{path}/q")), lambda found: found[2][0] > 0)
    finally:
        over.set()
        load.join(WITHIN_S)
