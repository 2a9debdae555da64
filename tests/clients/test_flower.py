"""Flower, the monitor of Celery, with a worker: its broker tab shows queues and counts, its API their lengths.

It requests `/queues/VHOST` of the HTTP API, and uses events and remote control of the worker over AMQP.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import quote

import pika
import pytest

from tests.support.http import HTTPClient
from tests.support.polling import until

from .test_celery import Worker

pytest.importorskip("flower")

HERE = Path(__file__).resolve().parent
STOP_WITHIN_S = 60


class Flower:
    """A Flower process; `get` requests a page."""

    def __init__(self, environment, broker_url, api_url):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "celery", "-A", "celery_tasks", f"--broker={broker_url}", "flower"]
        command += ["--address=127.0.0.1", f"--port={self.port}", f"--broker-api={api_url}", "--inspect-timeout=3000"]
        given = {"FLOWER_UNAUTHENTICATED_API": "true", "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            command,
            cwd=HERE,
            env={**os.environ, **environment, **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def get(self, path):
        """Return the text of a page. Raises OSError."""
        response = HTTPClient(f"127.0.0.1:{self.port}", "").get(path, user=None)
        if response.status != 200:
            raise OSError(response)
        return response.text

    def until(self, look):
        """Return the first true result of `look`; until then the web server may not have started."""

        def result():
            assert self.process.poll() is None, "it has ended"
            try:
                return look()
            except OSError:
                return None

        return until(result, every_s=0.3)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_WITHIN_S)
        finally:
            self.process.kill()


@pytest.fixture
def queue(api, vhost):
    """The name of a queue with a worker, and a Flower."""
    name = f"flower.{uuid.uuid4().hex[:8]}"
    url = f"amqp://guest:guest@{api.amqp}/{quote(vhost, '')}"
    environment = {"CONFORMANCE_BROKER_URL": url, "CONFORMANCE_QUEUE": name}
    worker = Worker(environment)
    flower = None
    try:
        worker.wait_ready()
        flower = Flower(environment, url, api.url)
        yield name, flower
    finally:
        if flower is not None:
            flower.stop()
        worker.stop()


def test_the_broker_tab_lists_queues_with_counts(api, vhost, queue):
    name, flower = queue
    host, _, port = api.amqp.rpartition(":")

    def counts():
        """Return the counts of messages and consumers, or None while the page shows dashes."""
        page = flower.get("/broker")
        row = page[page.find(f'id="{name}"') :].partition("</tr>")[0]
        cells = [cell.strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        return cells if cells and not any("&mdash;" in cell for cell in cells[:5]) else None

    assert flower.until(counts)[:5] == [name, "0", "0", "0", "1"]
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), vhost)) as connection:
        assert connection.channel().queue_declare(name, passive=True).method.consumer_count == 1


def test_its_api_has_lengths_and_workers(queue):
    name, flower = queue

    def lengths():
        return {
            row["name"]: row.get("messages") for row in json.loads(flower.get("/api/queues/length"))["active_queues"]
        }

    flower.until(lambda: lengths().get(name) == 0)
    workers = flower.until(lambda: json.loads(flower.get("/api/workers?refresh=1")))
    assert len(workers) == 1
