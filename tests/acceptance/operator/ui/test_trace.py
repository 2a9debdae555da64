"""The page of the live trace."""

from contextlib import closing

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .actions import send


def test_messages_go_by_until_the_page_is_left(ui: UI, running: BrokerProcess) -> None:
    with closing(running.connect()) as client:
        channel = client.channel()
        channel.declare("watched")
        page = ui.open("trace").page
        form = page.get_by_role("form", name="Trace messages")
        send(form, "Start", {"Queue": "watched"})
        expect(page.get_by_role("status").filter(has_text="Waiting")).to_be_visible()
        rows = page.get_by_role("table", name="Messages").locator("tbody tr")
        while not rows.count():  # the stream begins a moment after it was asked for
            channel.publish("", "watched", b"<script>alert(1)</script>")
            page.wait_for_timeout(50)
        expect(rows.first).to_contain_text("publish")
        rows.first.get_by_text(" B").first.click()
        expect(rows.first.locator("pre")).to_have_text("<script>alert(1)</script>")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").filter(has_text="stopped")).to_be_visible()
        send(form, "Start", {"Queue": "nowhere"})
        expect(page.get_by_role("status").filter(has_text="no such exchange or queue")).to_be_visible()
