"""Metrics of federation links, from the rows of the service."""

from tests.support.fake_federation import FakeFederation, row
from tests.support.metrics import Scraper

LINK = row(forwarded=7, confirmed=6, unconfirmed=1, dropped_max_hops=2, dropped_seen=3, reconnects=4, lag_ms=250)
LABELS = {name: str(LINK[name]) for name in ("vhost", "type", "name", "upstream", "upstream_name", "id")}


def test_each_link_has_its_state_and_counters(scraper: Scraper) -> None:
    scraper.host.services["federation"] = FakeFederation(LINK)
    for path in ("/metrics", "/metrics/per-object"):
        samples = scraper.scrape(path)
        for name, value in (
            ("up", 1), ("forwarded_total", 7), ("confirmed_total", 6), ("unconfirmed", 1), ("nacked_total", 0),
            ("reconnects_total", 4), ("retries", 0), ("backlog", 7), ("lag_seconds", 0.25),
        ):  # fmt: skip
            assert samples.value(f"warren_federation_link_{name}", **LABELS) == value, name
        for reason, value in (("max_hops", 2), ("seen", 3)):
            assert samples.value("warren_federation_link_dropped_total", **LABELS, reason=reason) == value


def test_links_are_counted_by_the_statuses_that_there_are(scraper: Scraper) -> None:
    assert scraper.scrape().labels("rabbitmq_federation_links") == []
    scraper.host.services["federation"] = FakeFederation()
    assert scraper.scrape().labels("rabbitmq_federation_links") == []
    down = LINK | {"id": "00000001", "status": "error", "backlog": None, "lag_ms": None}
    scraper.host.services["federation"] = FakeFederation(LINK, down, LINK | {"id": "00000002"})
    samples = scraper.scrape()
    assert samples.value("rabbitmq_federation_links", status="running") == 2
    assert samples.value("rabbitmq_federation_links", status="error") == 1
    assert len(samples.labels("rabbitmq_federation_links")) == 2
    assert samples.value("warren_federation_link_up", **(LABELS | {"id": "00000001"})) == 0


def test_links_that_are_refused_are_counted(scraper: Scraper) -> None:
    assert not scraper.scrape().labels("warren_federation_links_refused")
    for count in (0, 7):
        scraper.host.services["federation"] = FakeFederation(LINK, refused=count)
        assert scraper.scrape().value("warren_federation_links_refused") == count


def test_unknown_values_of_a_link_are_left_out(scraper: Scraper) -> None:
    scraper.host.services["federation"] = FakeFederation(LINK | {"backlog": None, "lag_ms": None})
    samples = scraper.scrape()
    assert not {"warren_federation_link_backlog", "warren_federation_link_lag_seconds"} & samples.names
