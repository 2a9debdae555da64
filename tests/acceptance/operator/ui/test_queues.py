"""The pages of queues."""

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI


def test_a_queue_is_added_and_listed_and_deleted(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("queues").page
    page.get_by_text("Add a queue").click()
    form = page.get_by_role("form", name="Add a queue")
    form.get_by_label("Name").fill("orders")
    form.get_by_role("button", name="x-max-length", exact=True).click()
    form.get_by_label("Arguments: value").fill("5")
    form.get_by_role("button", name="Add queue").click()
    row = page.get_by_role("row").filter(has_text="orders")
    expect(row).to_contain_text("Lim")
    assert running.http().get("/queues/%2F/orders").json["arguments"]["x-max-length"] == 5
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("orders (/): 0 messages")
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert running.http().get("/queues/%2F/orders").status == 404
