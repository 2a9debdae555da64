"""docker/monitoring: the files for Prometheus and Grafana match the metrics of brokers.

A real Prometheus scrapes two brokers with a link under load, by the configuration in docker/monitoring, and each
expression of each panel must have data; Grafana itself is not run.
"""

import json
import math
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest
import yaml

from tests.support.checkout import ROOT
from tests.support.federated_broker import FederatedBroker
from tests.support.metrics import Samples, Scraper
from tests.support.pika_client import dial
from tests.support.polling import until
from tests.support.prometheus import MISSING, Prometheus, program

MONITORING = ROOT / "docker" / "monitoring"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
ALERTS = MONITORING / "alerts.yml"
EVERY_DASHBOARD = pytest.mark.parametrize("file", DASHBOARDS, ids=lambda path: path.stem)
WITH_PROMETHEUS = pytest.mark.skipif(program("prometheus") is None or program("promtool") is None, reason=MISSING)
WIDTH = 24  # columns of Grafana's grid
PATIENCE_S = 60.0
METRIC = re.compile(r"\b(?:up|(?:rabbitmq|warren|process|python)_\w+)(?=[{\[ )]|$)")
LABELS = re.compile(r"\{[^}]*\}|\b(?:by|on) \([^)]*\)")
SCRAPE = "2s"  # interval, and limit of each scrape
WINDOW = "20s"  # of rates


def loaded(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def expressions(file: Path) -> list[str]:
    """Return the expressions of a dashboard's panels, as Grafana would send them."""
    found = [target["expr"] for panel in loaded(file)["panels"] for target in panel["targets"]]
    return [each.replace("$__rate_interval", WINDOW).replace("$instance", ".*") for each in found]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def metrics_of(expression: str) -> set[str]:
    return set(METRIC.findall(LABELS.sub(" ", expression)))


@EVERY_DASHBOARD
def test_a_dashboard_is_complete_and_its_panels_do_not_overlap(file: Path) -> None:
    board = loaded(file)
    assert board["uid"] == f"warren-{file.stem}" and board["tags"] == ["warren"]
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "instance"]
    panels = board["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert len({panel["title"] for panel in panels}) == len(panels)
    cells: Counter[tuple[int, int]] = Counter()
    for panel in panels:
        assert panel["description"].endswith(".") and panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["unit"]
        names = [target["refId"] for target in panel["targets"]]
        assert names and len(set(names)) == len(names)
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH
        cells.update((at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"]))
    assert set(cells.values()) == {1}


@EVERY_DASHBOARD
def test_grafana_knows_each_field_of_a_dashboard(file: Path) -> None:
    """Its own library reads the dashboard and writes it again: a field that it does not know would be lost."""
    sdk = pytest.importorskip("grafana_foundation_sdk", reason="no grafana-foundation-sdk is installed")
    assert sdk is not None
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
        if isinstance(before, dict) and isinstance(after, dict):
            for key, value in before.items():
                yield from lost(value, after.get(key, "nothing"), f"{path}.{key}")
        elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for number, (value, other) in enumerate(zip(before, after, strict=True)):
                yield from lost(value, other, f"{path}[{number}]")
        elif before != after:
            yield f"{path}: {before} became {after}"

    plugins.register_default_plugins()
    board = loaded(file)
    assert list(lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board))))) == []


def test_each_metric_of_dashboards_and_alerts_is_one_that_a_broker_exports() -> None:
    scraper = Scraper()
    family = "&".join(f"family={name}" for name in detailed_families())
    text = scraper.get("/metrics").body.decode() + scraper.get(f"/metrics/detailed?{family}").body.decode()
    scraper.close()
    exported = {"up", *re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)}
    used = {name for file in DASHBOARDS for each in expressions(file) for name in metrics_of(each)}
    used |= {name for rule in rules() for name in metrics_of(rule["expr"])}
    assert len(used) > 50
    assert {name for name in used if re.sub(r"_(bucket|count)$", "", name) not in exported} == set()


def detailed_families() -> list[str]:
    jobs = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    (found,) = [job["params"]["family"] for job in jobs if "params" in job]
    return list(found)


def test_grafana_finds_its_data_source_and_its_dashboards_where_compose_mounts_them() -> None:
    grafana = yaml.safe_load((MONITORING / "compose.yaml").read_text(encoding="utf-8"))["services"]["grafana"]
    mounted = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    (provider,) = yaml.safe_load((MONITORING / "grafana/dashboards/warren.yml").read_text())["providers"]
    assert mounted["./dashboards"] == provider["options"]["path"]
    for kind in ("datasources", "dashboards"):
        assert mounted[f"./grafana/{kind}"] == f"/etc/grafana/provisioning/{kind}"
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (str(home.parent), home.name) == (provider["options"]["path"], "queues.json")
    (source,) = yaml.safe_load((MONITORING / "grafana/datasources/prometheus.yml").read_text())["datasources"]
    jobs = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == jobs["global"]["scrape_interval"]


@WITH_PROMETHEUS
def test_the_alerts_fire_when_they_should() -> None:
    tests = Path(__file__).with_name("alerts_test.yml")
    assert {rule["alert"] for rule in rules()} == set(re.findall(r"alertname: (\w+)", tests.read_text()))
    command = [str(program("promtool")), "test", "rules", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass
class Monitored:
    """A Prometheus that scrapes brokers, and the time in seconds at which it had data for each panel."""

    server: Prometheus
    time_s: float

    def has_data(self, expression: str) -> bool:
        return any(not math.isnan(value) for value in self.server.query(expression, self.time_s))


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """A Prometheus with the jobs and alerts of docker/monitoring, which scrapes two brokers with a link."""
    folder = tmp_path_factory.mktemp("monitoring")
    lines = ("prometheus.tcp.ip = 127.0.0.1", "prometheus.tcp.port = 0")
    brokers = [FederatedBroker(folder / name, name) for name in ("here", "origin")]
    try:
        for broker in brokers:
            broker.configure(*lines)
            broker.start()
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": "1s"}
        config["rule_files"] = [str(ALERTS)]
        for job in config["scrape_configs"]:
            job["static_configs"] = [{"targets": [broker.addresses["http/prometheus"][0] for broker in brokers]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with Prometheus(folder, folder / "prometheus.yml") as server:
            yield publish_and_consume(*brokers, server)
    finally:
        for broker in brokers:
            broker.close()


def publish_and_consume(here: FederatedBroker, origin: FederatedBroker, server: Prometheus) -> Monitored:
    """Have messages pass a link until Prometheus has data for each panel, or for a time in which it should."""
    there, consuming = dial(origin.address), dial(here.address)
    try:
        upstream, downstream = there.channel(), consuming.channel()
        for channel in (upstream, downstream):
            channel.exchange_declare("news", "fanout", durable=True)
        downstream.queue_declare("readers", durable=True)
        downstream.queue_bind("readers", "news", "")
        here.federate("^news$", origin.uri)
        here.running()
        monitored, give_up_s = Monitored(server, 0.0), time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            for _ in range(10):
                upstream.basic_publish("news", "", b"x" * 100, stamped())
            while downstream.basic_get("readers", auto_ack=True)[0] is not None:
                pass
            monitored.time_s = time.time()
            if all(monitored.has_data(each) for file in DASHBOARDS for each in expressions(file)):
                break
            time.sleep(0.1)
        return monitored
    finally:
        there.close()
        consuming.close()


def stamped() -> pika.BasicProperties:
    """Return the properties of a persistent message with its time, from which links know their lag."""
    return pika.BasicProperties(delivery_mode=2, timestamp=int(time.time()))


@WITH_PROMETHEUS
@pytest.mark.sockets
def test_prometheus_scrapes_both_jobs_of_both_brokers(monitored: Monitored) -> None:
    def targets_up() -> Counter[str]:
        targets = monitored.server.get("targets")["activeTargets"]
        return Counter(target["labels"]["job"] for target in targets if target["health"] == "up")

    until(lambda: targets_up() == {"warren": 2, "warren-queues": 2}, lambda: str(targets_up()))


@WITH_PROMETHEUS
@pytest.mark.sockets
@EVERY_DASHBOARD
def test_each_expression_of_a_dashboard_has_data(monitored: Monitored, file: Path) -> None:
    assert [each for each in expressions(file) if not monitored.has_data(each)] == []


@WITH_PROMETHEUS
@pytest.mark.sockets
def test_prometheus_evaluates_the_alerts_and_has_their_metrics(monitored: Monitored) -> None:
    def evaluated() -> list[dict[str, Any]]:
        (group,) = monitored.server.get("rules")["groups"]
        return [rule for rule in group["rules"] if rule["health"] == "ok"]

    until(lambda: len(evaluated()) == len(rules()), "all rules evaluated")
    names = {name for rule in rules() for name in metrics_of(rule["expr"])}
    assert [name for name in names if not monitored.has_data(f"count({name})")] == []


# By the labels that its panels use. A counter that appears later has no rate at first.
ALONE: frozenset[str] = frozenset()
PROTOCOL = frozenset({"protocol"})
BY_TYPE = frozenset({"protocol", "queue_type"})
GAUGES = {
    ALONE: (
        *("rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked", "rabbitmq_connections"),
        *("rabbitmq_channels", "rabbitmq_queues", "rabbitmq_resident_memory_limit_bytes"),
        *("rabbitmq_process_resident_memory_bytes", "rabbitmq_disk_space_available_bytes"),
        *("rabbitmq_disk_space_available_limit_bytes", "rabbitmq_process_max_fds", "rabbitmq_process_open_fds"),
        "rabbitmq_erlang_uptime_seconds",
    ),
    PROTOCOL: ("rabbitmq_global_publishers", "rabbitmq_global_consumers"),
}
COUNTERS = {
    ALONE: (
        *("rabbitmq_connections_opened_total", "rabbitmq_connections_closed_total"),
        *("rabbitmq_channels_opened_total", "rabbitmq_channels_closed_total", "rabbitmq_queues_declared_total"),
        *("rabbitmq_queues_created_total", "rabbitmq_queues_deleted_total"),
    ),
    PROTOCOL: tuple(
        f"rabbitmq_global_messages_{what}_total"
        for what in (
            *("received", "received_confirm", "confirmed", "routed", "unroutable_dropped", "unroutable_returned"),
        )
    ),
    BY_TYPE: tuple(
        f"rabbitmq_global_messages_{what}_total"
        for what in (
            *("delivered", "delivered_consume_manual_ack", "delivered_consume_auto_ack", "delivered_get_manual_ack"),
            *("delivered_get_auto_ack", "get_empty", "redelivered", "acknowledged"),
        )
    ),
}
SERIES = [(name, "gauge", labels) for labels, names in GAUGES.items() for name in names]
SERIES += [(name, "counter", labels) for labels, names in COUNTERS.items() for name in names]
ADDED_UP = "rabbitmq_global_messages_delivered_consume_{}_ack_total"  # the panel of deliveries adds both series


@pytest.fixture(scope="module")
def fresh() -> Samples:
    """The metrics of a broker that has not been used."""
    scraper = Scraper()
    samples = scraper.scrape()
    scraper.close()
    return samples


@pytest.mark.parametrize(("name", "kind", "labels"), SERIES)
def test_a_series_is_there_from_the_start(fresh: Samples, name: str, kind: str, labels: frozenset[str]) -> None:
    assert fresh.kinds[name] == kind
    assert {frozenset(one) for one in fresh.labels(name)} == {labels}
    if kind == "counter":
        assert fresh.sum(name) == 0


def test_all_series_can_be_joined_with_identity_info(fresh: Samples) -> None:
    (identity,) = fresh.labels("rabbitmq_identity_info")
    assert set(identity) == {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"}
    (build,) = fresh.labels("rabbitmq_build_info")
    assert {"rabbitmq_version", "erlang_version"} <= set(build)
    assert fresh.sum("rabbitmq_identity_info") == fresh.sum("rabbitmq_build_info") == 1


def test_deliveries_with_and_without_acknowledgement_can_be_added_one_by_one(fresh: Samples) -> None:
    manual, auto = (fresh.labels(ADDED_UP.format(how)) for how in ("manual", "auto"))
    assert manual == auto and {one["queue_type"] for one in manual} == {"rabbit_classic_queue", "rabbit_quorum_queue"}
