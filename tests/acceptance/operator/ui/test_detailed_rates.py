"""The message rates breakdown of a broker that counts between channels, exchanges and queues."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.browser import UI

from .traffic import Traffic

RATE = re.compile(r"[1-9][\d,.]*.s$")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with detailed rates."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), "--http", ANY_PORT, memory=True)
    broker.configure("management.rates_mode = detailed")
    with broker:
        yield broker


def expect_rates(page: Page, label: str, partner: str, *titles: str) -> None:
    """Expect rates of a partner, a link, in a table of the breakdown."""
    table = page.get_by_role("table", name=label)
    for title in titles:
        expect(table.get_by_role("columnheader", name=title, exact=True)).to_be_visible()
    row = table.get_by_role("row").filter(has=page.get_by_role("link", name=partner, exact=True))
    expect(row.get_by_role("cell", name=RATE)).to_have_count(len(titles))


def test_pages_of_queues_exchanges_and_channels_show_their_rates_by_partner(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/counted", {})
    http.post("/bindings/%2F/e/amq.topic/q/counted", {"routing_key": "#"})
    with Traffic(("127.0.0.1", running.port), "amq.topic", "any", "counted"):
        page = ui.open("queues/%2F/counted").page
        expect_rates(page, "Incoming", "amq.topic", "Publish")
        deliveries = page.get_by_role("table", name="Deliveries")
        channel = deliveries.get_by_role("link").inner_text()
        expect_rates(page, "Deliveries", channel, "Deliver (manual ack)", "Consumer ack")
        whole = deliveries.get_by_role("link").get_attribute("title") or ""
        assert re.sub(r" -> \S+", "", whole) == channel
        deliveries.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(whole)
        expect_rates(page, "Publishes", "amq.topic", "Publish")
        expect_rates(page, "Deliveries", "counted", "Deliver (manual ack)", "Consumer ack")
        ui.open("exchanges/%2F/amq.topic")
        expect_rates(page, "Incoming", channel, "Publish")
        expect_rates(page, "Outgoing", "counted", "Publish")
