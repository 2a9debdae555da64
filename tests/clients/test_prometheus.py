"""Debian's Prometheus scrapes the broker, and its queries return what dashboards need.

The tests are skipped if Prometheus is not installed.
"""

import json
import os
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import prometheus as server
from tests.support.http import HTTPClient
from tests.support.polling import until

from .api import API

pytestmark = pytest.mark.sockets

PATIENCE_S = 60
ATTEMPTS = 3  # to start it, as another program may have taken the free port meanwhile
# promtool's warning about a name that is RabbitMQ's
KNOWN = 'rabbitmq_unreachable_cluster_peers_count non-histogram and non-summary metrics should not have "_count" suffix'
JOIN = " * on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info{{{endpoint}}}"
ENDPOINT = 'rabbitmq_endpoint="aggregated"'
GAUGES = (
    *("rabbitmq_queue_messages_ready", "rabbitmq_connections", "rabbitmq_global_publishers"),
    *("rabbitmq_resident_memory_limit_bytes", "rabbitmq_process_open_fds", "rabbitmq_erlang_uptime_seconds"),
)
COUNTERS = (
    *("rabbitmq_global_messages_received_total", "rabbitmq_global_messages_delivered_consume_manual_ack_total"),
    *("rabbitmq_channels_opened_total", "rabbitmq_message_size_bytes_count", "warren_event_loop_lag_seconds_count"),
)


def program(name: str) -> str:
    """Return the path of a program, or skip the test."""
    path = server.program(name)
    if path is None:
        pytest.skip(server.MISSING)
    return path


@pytest.fixture(scope="module")
def own(api: API) -> API:
    """The API of a Warren that serves metrics on the same port."""
    if "WARREN_API" in os.environ:
        pytest.skip("a peer has its metrics on another port")
    return api


def scraped(api: API, path: str) -> bytes:
    response = HTTPClient(f"{api.host}:{api.port}", "").get(path)
    assert response.status == 200, response
    return response.body


@pytest.mark.parametrize(
    "path",
    [
        *("/metrics", "/metrics/per-object", "/metrics/memory-breakdown"),
        "/metrics/detailed?family=queue_metrics&family=exchange_bindings&family=channel_metrics",
    ],
)
def test_promtool_finds_nothing_wrong(own: API, path: str) -> None:
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=scraped(own, path), capture_output=True, timeout=PATIENCE_S
    )
    assert set(checked.stderr.decode().splitlines()) <= {KNOWN}


class Prometheus:
    """A Prometheus server, and requests to its API."""

    def __init__(self, folder: Path, api: API) -> None:
        self._folder = folder
        (folder / "prometheus.yml").write_text(
            json.dumps(  # JSON is also YAML
                {
                    "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                    "scrape_configs": [
                        {
                            "job_name": "rabbitmq",
                            "basic_auth": {"username": "guest", "password": "guest"},
                            "static_configs": [{"targets": [f"{api.host}:{api.port}"]}],
                        }
                    ],
                }
            ),
            encoding="utf-8",
        )

    def started(self) -> bool:
        """Return True once it answers; False if it has exited, for example because its port was taken."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self._client = HTTPClient(address, "")
        self.process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self.process.poll() is not None or self._ready(), every_s=0.1)
        if self.process.poll() is None:
            return True
        self.stop()
        return False

    def _ready(self) -> bool:
        try:
            return self._client.get("/-/ready", user=None).status == 200
        except OSError:
            return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def data(self, path: str, **query: str) -> Any:
        """Return the data of a response of its HTTP API."""
        return self._client.get(f"/api/v1/{path}?{urllib.parse.urlencode(query)}", user=None).json["data"]

    def found(self, query: str) -> list[float]:
        """Return the first non-empty result of the query."""
        result = until(
            lambda: self.data("query", query=query)["result"],
            lambda: f"a result of {query}: {self.data('targets')}",
            every_s=0.2,
        )
        return [float(one["value"][1]) for one in result]


@pytest.fixture(scope="module")
def prometheus(own: API, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), own)
    assert any(made.started() for _ in range(ATTEMPTS)), "it does not start"
    yield made
    made.stop()


def test_gauges_and_rates_are_found_as_dashboards_join_them(prometheus: Prometheus) -> None:
    join = JOIN.format(endpoint=ENDPOINT)
    for name in GAUGES:
        assert prometheus.found(name + join), name
    for name in COUNTERS:
        assert prometheus.found(f"sum(rate({name}[1m]){join}) by (rabbitmq_node)"), name
    assert prometheus.found(f"count(rabbitmq_identity_info{{{ENDPOINT}}})") == [1.0]
    assert prometheus.found("up == 1") == [1.0]  # in every scrape


def test_what_is_published_is_soon_counted(prometheus: Prometheus, api: API, vhost: str) -> None:
    queue = f"/queues/{urllib.parse.quote(vhost, '')}/counted"
    assert api.call("PUT", queue, {}).status == 201
    message = {"properties": {}, "routing_key": "counted", "payload": "x" * 5000, "payload_encoding": "string"}
    assert api.call("POST", f"/exchanges/{urllib.parse.quote(vhost, '')}/amq.default/publish", message).status == 200
    assert prometheus.found("rabbitmq_queue_messages_published_total > 0")
    between = 'rabbitmq_message_size_bytes_bucket{le="10000.0"} - ignoring(le) rabbitmq_message_size_bytes_bucket'
    assert prometheus.found(between + '{le="1000.0"} > 0')
