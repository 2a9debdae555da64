"""The endpoints: their metrics, access and formats."""

import dataclasses
import html
import re
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from tests.support.metrics import Samples, Scraper
from warren.broker.config.config import HTTPListener

ENDPOINTS = {
    "/metrics": "aggregated", "/metrics/": "aggregated", "/metrics/per-object": "per-object",
    "/metrics/detailed": "detailed", "/metrics/memory-breakdown": "memory-breakdown",
}  # fmt: skip


parsed: Any = openmetrics.text_string_to_metric_families  # the parser does not declare types


@pytest.mark.parametrize("path", ENDPOINTS)
def test_each_scrape_ends_with_one_build_and_identity_info(scraper: Scraper, path: str) -> None:
    text = scraper.get(path).body.decode()
    samples = Samples(text)
    (identity,) = samples.labels("rabbitmq_identity_info")
    (build,) = samples.labels("rabbitmq_build_info")
    assert identity["rabbitmq_endpoint"] == ENDPOINTS[path]
    assert identity["rabbitmq_node"] == scraper.host.node.name
    assert identity["rabbitmq_cluster"] == scraper.host.node.cluster_name
    assert identity["rabbitmq_cluster_permanent_id"].startswith("rabbitmq-cluster-id-")
    assert (build["rabbitmq_version"], build["product_name"]) == ("4.3.5", "Warren")
    last = [line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")][-2:]
    assert last == ["rabbitmq_build_info", "rabbitmq_identity_info"]


def test_details_without_families_are_build_and_identity_info(scraper: Scraper) -> None:
    assert scraper.scrape("/metrics/detailed").names == {"rabbitmq_build_info", "rabbitmq_identity_info"}
    assert scraper.scrape("/metrics/detailed?family=nope").names >= {"rabbitmq_build_info"}


def test_the_whole_may_be_that_of_each_object() -> None:
    scraper = Scraper(return_per_object_metrics=True)
    scraper.peer.connect().channel().declare("q")
    samples = scraper.scrape()
    assert samples.labels("rabbitmq_identity_info")[0]["rabbitmq_endpoint"] == "per-object"
    assert samples.value("rabbitmq_queue_messages_ready", vhost="/", queue="q") == 0


def test_the_path_can_be_another() -> None:
    scraper = Scraper(path="/a/b")
    assert scraper.get("/a/b").status == scraper.get("/a/b/per-object").status == 200
    assert scraper.get("/metrics").status == 404


def test_unknown_endpoints_are_answered_as_by_rabbitmq(scraper: Scraper) -> None:
    unknown = scraper.get("/metrics/nope")
    assert (unknown.status, unknown.body, unknown.headers["content-type"]) == (404, b"Unknown Registry", "text/plain")
    for path in ("//", "/metricsx", "/api/overview"):
        assert scraper.get(path).error == (404, "Object Not Found", "Not Found")
    refused = scraper.get("/metrics", method="POST")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    assert scraper.get("/metrics", method="HEAD").status == 200


@pytest.mark.parametrize("path", ["/metrics", '/a"&<b'])
def test_the_root_is_a_page_with_links_to_the_endpoints(path: str) -> None:
    scraper = Scraper(path=path)
    page = scraper.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = [html.unescape(link) for link in re.findall('<a href="([^"]*)">', page.body.decode())]
    assert links == [path, *(f"{path}/{each}" for each in ("per-object", "detailed", "memory-breakdown"))]
    assert (scraper.get("/", method="HEAD").status, scraper.get("/", method="POST").status) == (200, 405)


def test_the_root_is_as_guarded_as_the_endpoints() -> None:
    assert Scraper(authentication_enabled=True).get("/").status == 401


def test_metrics_may_be_at_the_root() -> None:
    assert b"rabbitmq_queues" in Scraper(path="/").get("/").body


def test_the_format_is_the_requested_one(scraper: Scraper) -> None:
    plain = scraper.get("/metrics", headers={"Accept": "text/plain"})
    assert plain.headers["content-type"] == "text/plain; version=0.0.4"
    asked = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    opened = scraper.get("/metrics", headers={"Accept": asked})
    assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    families = {family.name for family in parsed(opened.body.decode())}
    assert {"rabbitmq_connections_opened", "rabbitmq_queues", "rabbitmq_message_size_bytes"} <= families
    odd = scraper.get("/metrics", headers={"Accept": "text/plain;version=x"})
    assert odd.headers["content-type"] == "text/plain; version=0.0.4"


def test_long_scrapes_are_compressed_if_the_scraper_accepts_it(scraper: Scraper) -> None:
    squeezed = scraper.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert squeezed.headers["content-encoding"] == "gzip" and b"rabbitmq_queues 0.0" in squeezed.body
    assert "content-encoding" not in scraper.get("/metrics").headers
    assert "content-encoding" not in scraper.get("/metrics/detailed", headers={"Accept-Encoding": "gzip;q=0"}).headers


def test_each_listener_of_metrics_has_its_own_keys() -> None:
    scraper = Scraper(ssl=HTTPListener(compress=False))
    asked = {"Accept-Encoding": "gzip"}
    assert "content-encoding" in scraper.get("/metrics", headers=asked).headers
    assert "content-encoding" not in scraper.get("/metrics", headers=asked, scheme="https").headers


def test_protected_metrics_need_the_tag_monitoring() -> None:
    scraper = Scraper(authentication_enabled=True)
    scraper.peer.add_user("monitor", ("monitoring",))
    scraper.peer.add_user("m", ("management",))
    nobody = scraper.get("/metrics")
    assert (nobody.status, nobody.headers["www-authenticate"]) == (401, 'Basic realm="RabbitMQ Prometheus"')
    assert scraper.get("/metrics", user="m").error == (401, "not_authorised", "Not monitor user")
    assert scraper.get("/metrics", headers={"Authorization": "Bearer x"}).status == 401
    assert scraper.get("/metrics", user="monitor", password="wrong").error == (401, "not_authorized", "Not_Authorized")
    assert scraper.get("/metrics", user="monitor").status == 200
    assert scraper.get("/metrics/detailed", user="guest").status == 200
    remote = scraper.get("/metrics", user="guest", address="192.0.2.1")
    assert remote.error == (401, "not_authorised", "User can only log in via localhost")


def test_an_internal_error_ends_one_scrape_without_details(scraper: Scraper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(scraper.host.node), "cluster_name", property(lambda node: 1 / 0))
    response = scraper.get()
    assert (response.status, response.body) == (500, b"see the broker's log")
    assert scraper.peer.log[-1][0] == "internal_error"


def test_scrapes_count_themselves(scraper: Scraper) -> None:
    first = scraper.get("/metrics/per-object")
    samples = scraper.scrape()
    labels = {"registry": "per-object", "content_type": "text/plain; version=0.0.4"}
    assert samples.value("telemetry_scrape_size_bytes_sum", **labels) == len(first.body)
    assert samples.value("telemetry_scrape_duration_seconds_count", **labels) == 1
    registries = [one["registry"] for one in scraper.scrape().labels("telemetry_scrape_size_bytes_sum")]
    assert registries == ["per-object", "default"]


def test_names_that_clients_chose_are_escaped(scraper: Scraper) -> None:
    odd = 'a"b\\c\u00fc'
    scraper.peer.connect().channel().declare(odd)
    scraper.peer.add_vhost("two\nlines")
    for name in ("\udcff", "\udcfe"):  # not UTF-8, which neither AMQP nor the HTTP API accepts
        scraper.peer.node.vhosts["/"].declare_queue(name)
    named = {one["queue"] for one in scraper.scrape("/metrics/per-object").labels("rabbitmq_queue_messages")}
    assert named == {odd, "\\udcff", "\\udcfe"}
    vhosts = scraper.scrape("/metrics/detailed?family=vhost_status").labels("rabbitmq_cluster_vhost_status")
    assert [one["vhost"] for one in vhosts] == ["/", "two\nlines"]


def test_on_the_port_of_the_api_they_have_its_prefix_and_are_not_at_its_root() -> None:
    scraper, at_root = Scraper(), Scraper(path="/")
    for one in (scraper, at_root):
        prefixed = dataclasses.replace(one.host.config.management, path_prefix="/rabbit/")
        one.host.config = dataclasses.replace(one.host.config, management=prefixed)
    assert (scraper.state.path, scraper.state.shared_path) == ("/metrics", "/rabbit/metrics")
    assert (at_root.state.path, at_root.state.shared_path) == ("", "")
    assert at_root.get("/").status == at_root.get("/per-object").status == 200
