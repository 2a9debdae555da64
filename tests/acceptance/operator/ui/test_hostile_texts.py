"""Names, keys, arguments, headers and bodies with HTML, quotes and escapes: they are shown as text, and links work."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .actions import answer, section

TEXTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    'it\'s "quoted" & <b>bold</b> &lt;',
    "a/b/../%2F%252F%zz #?;=+ é\u202e\\",
]


def nothing_ran(page: Page) -> None:
    """No element was made of the texts; scripts and dialogs would be among the problems of the tab."""
    assert page.locator("main script, main img, main b:not([class]):has-text('bold'), main iframe").count() == 0


@pytest.mark.parametrize("text", TEXTS)
def test_a_queue_with_this_name_is_shown_linked_bound_and_deleted(ui: UI, running: BrokerProcess, text: str) -> None:
    http = running.http()
    name = quote(text, safe="")
    assert http.put(f"/exchanges/%2F/{name}", {"type": "headers"}).status == 201
    assert http.put(f"/queues/%2F/{name}", {"arguments": {"x-dead-letter-exchange": text}}).status == 201
    binding = {"routing_key": text, "arguments": {text: text, "x-match": "any"}}
    assert http.post(f"/bindings/%2F/e/{name}/q/{name}", binding).status == 201
    properties = {"headers": {text: text, "nested": {text: [text]}}, "type": text, "correlation_id": text}
    message = {"routing_key": text, "properties": properties, "payload": text, "payload_encoding": "string"}
    assert http.post("/exchanges/%2F/amq.default/publish", message).json == {"routed": True}

    page = ui.open("queues").page
    page.get_by_role("link", name=text, exact=True).click()
    expect(page.locator("main h1 b")).to_have_text(text)
    expect(section(page, "Details")).to_contain_text(text)
    row = section(page, "Bindings to this queue").get_by_role("row").filter(has=page.get_by_text("Unbind"))
    expect(row).to_contain_text(text)
    get = section(page, "Get messages")
    get.get_by_role("button", name="Get messages").click()
    shown = get.get_by_role("article")
    assert shown.get_by_label("Payload").inner_text() == text
    for value in properties["headers"], properties["type"]:
        expect(shown).to_contain_text(text if isinstance(value, str) else "nested")
    nothing_ran(page)
    row.get_by_role("link", name=text, exact=True).click()
    expect(page.locator("main h1")).to_contain_text("Exchange")
    expect(page.locator("main h1 b")).to_have_text(text)
    outgoing = section(page, "Bindings from this exchange")
    outgoing.get_by_role("button").filter(has_text="Unbind").click()
    assert text in answer(page, "Unbind")
    expect(outgoing).to_contain_text("no bindings")
    nothing_ran(page)
    section(page, "Delete this exchange").get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(page.locator("main h1")).to_have_text("Exchanges")
    page = ui.open("queues").page
    page.get_by_role("row").filter(has_text=text).get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete").click()
    assert text in answer(page, "Delete")
    expect(page.get_by_role("link", name=text, exact=True)).to_have_count(0)
    assert http.get(f"/queues/%2F/{name}").status == 404
