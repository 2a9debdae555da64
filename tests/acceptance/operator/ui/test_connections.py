"""The pages of connections and channels."""

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .actions import send


def test_a_connection_and_its_channel_are_shown_and_closed_with_a_reason(ui: UI, running: BrokerProcess) -> None:
    client = running.connect()
    channel = client.channel()
    channel.declare("watched")
    channel.consume("watched", consumer_tag="reader")
    page = ui.open("connections").page
    row = page.get_by_role("table", name="Connections").get_by_role("row").filter(has_text="AMQP 0-9-1")
    expect(row).to_contain_text("guest")
    consumers = ui.open("consumers").page.get_by_role("table", name="Consumers")
    expect(consumers.get_by_role("row").filter(has_text="reader")).to_contain_text("watched")
    page.get_by_label("Consumers: filter by queue or tag").fill("nobody")
    expect(page.get_by_text("no consumers")).to_be_visible()
    ui.open("connections")
    row.get_by_role("link").first.click()
    expect(page.locator("figure.chart")).to_contain_text("From client")
    page.get_by_role("table", name="Channels of the connection").get_by_role("link").first.click()
    expect(page.get_by_role("table", name="Consumers of the channel")).to_contain_text("reader")
    page.get_by_role("definition").get_by_role("link").first.click()
    page.get_by_text("Close this connection").click()
    send(page, "Close connection", {"Reason": "end of the test"})
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.locator("main h1")).to_have_text("Connections")
    expect(page.get_by_text("no connections")).to_be_visible()
    assert "end of the test" in client.expect_close(320).reply_text


def test_the_chosen_virtual_host_filters_lists_and_stays_chosen(ui: UI, running: BrokerProcess) -> None:
    http, page = running.http(), ui.page
    http.put("/vhosts/other")
    http.put("/queues/other/far")
    http.put("/queues/%2F/near")
    ui.open("vhosts").open("queues")
    page.get_by_role("banner").get_by_label("Virtual host").select_option("other")
    table = ui.open("queues").page.get_by_role("table", name="Queues")
    expect(table).to_contain_text("far")
    expect(table).not_to_contain_text("near")
    page.reload()
    ui.open("connections").open("queues")
    expect(table).to_contain_text("far")
    expect(page.get_by_role("banner").get_by_label("Virtual host")).to_have_value("other")
    http.delete("/vhosts/other")
    ui.open("vhosts").open("queues")
    expect(table).to_contain_text("near")
