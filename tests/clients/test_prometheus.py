"""Debian's Prometheus scrapes the broker, and its queries return what dashboards need.

The tests are skipped if Prometheus is not installed.
"""

import json
import os
import subprocess
import urllib.error
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import prometheus as server
from tests.support.http import HTTPClient
from tests.support.polling import until
from tests.support.prometheus import Prometheus

from .api import API

pytestmark = pytest.mark.sockets

PATIENCE_S = 60
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


@pytest.fixture(scope="module")
def prometheus(own: API, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    scraped = {
        "job_name": "rabbitmq",
        "basic_auth": {"username": "guest", "password": "guest"},
        "static_configs": [{"targets": [f"{own.host}:{own.port}"]}],
    }
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scraped]}
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # JSON is also YAML
    with Prometheus(folder, folder / "prometheus.yml") as started:
        yield started


def found(prometheus: Prometheus, query: str) -> list[float]:
    """Return the first non-empty result of the query."""

    def result_now() -> list[dict[str, Any]]:
        try:
            return list(prometheus.get("query", query=query)["result"])
        except urllib.error.HTTPError as error:
            if error.code != 503:  # which means that it took too long
                raise
            return []

    result = until(
        result_now,
        lambda: f"a result of {query}: {prometheus.get('targets')}",
        every_s=0.2,
    )
    return [float(one["value"][1]) for one in result]


def test_gauges_and_rates_are_found_as_dashboards_join_them(prometheus: Prometheus) -> None:
    join = JOIN.format(endpoint=ENDPOINT)
    for name in GAUGES:
        assert found(prometheus, name + join), name
    for name in COUNTERS:
        assert found(prometheus, f"sum(rate({name}[1m]){join}) by (rabbitmq_node)"), name
    assert found(prometheus, f"count(rabbitmq_identity_info{{{ENDPOINT}}})") == [1.0]
    assert found(prometheus, "up == 1") == [1.0]  # in every scrape


def test_what_is_published_is_soon_counted(prometheus: Prometheus, api: API, vhost: str) -> None:
    queue = f"/queues/{urllib.parse.quote(vhost, '')}/counted"
    assert api.call("PUT", queue, {}).status == 201
    message = {"properties": {}, "routing_key": "counted", "payload": "x" * 5000, "payload_encoding": "string"}
    assert api.call("POST", f"/exchanges/{urllib.parse.quote(vhost, '')}/amq.default/publish", message).status == 200
    assert found(prometheus, "rabbitmq_queue_messages_published_total > 0")
    between = 'rabbitmq_message_size_bytes_bucket{le="10000.0"} - ignoring(le) rabbitmq_message_size_bytes_bucket'
    assert found(prometheus, between + '{le="1000.0"} > 0')
