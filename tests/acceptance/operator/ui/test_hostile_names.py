"""Names and texts made to run scripts, to lead elsewhere, or to break the layout: every page shows them as text."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI
from tests.support.polling import until

from .actions import send, unfold_form
from .objects import Objects, encode, open_page

SCRIPTS = "javascript:alert(1)//<script>alert(1)</script>\"><img src=x onerror=alert(1)>'`${alert(1)}"
ADDRESSES = "%2F../a/b?c=d&e#f%25\\+; 100%"
SIGNS = "🐰\u200d🕳️ ‮evil‬ אבגד مرحبا \u0301\u0301 é"
TEXT = f"{SCRIPTS} {ADDRESSES} {SIGNS} "
NAME_BYTES = 255
# As long as a name can be, with a part that is wider than a phone and has no place to break it.
NAME = TEXT + "W" * (NAME_BYTES - len(TEXT.encode()))
WIDTHS = (1280, 360)
HEIGHT = 800
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
TEXTS = """[document.body.textContent, ...[...document.querySelectorAll("[title], input, textarea, title")]
  .flatMap((one) => [one.title ?? "", one.value ?? "", one.textContent])].join("\\n")"""
INLINE = "void document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))"
# Pages that name no object of the tests.
GENERAL = ("features", "configuration", "trace", "limits", "reports", "federation/wizard", "log")
LISTS = (*("queues", "exchanges", "users", "vhosts", "policies"), *("federation-upstreams", "federation-upstream-sets"))


@pytest.fixture(scope="module")
def objects(running: BrokerProcess) -> Objects:
    running.http().put("/cluster-name", {"name": NAME})
    return Objects(running, NAME)


def shown(page: Page) -> str:
    """The texts of the page, its title attributes and its inputs."""
    return str(page.evaluate(TEXTS))


def overflows(page: Page) -> dict[int, int]:
    """The number of pixels by which the page is wider than the window, by width of the window."""
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        found[width] = page.evaluate(f"new Promise(requestAnimationFrame).then(() => {OVERFLOW})")
    return {width: pixels for width, pixels in found.items() if pixels > 0}


def test_every_page_shows_them_as_text_and_within_its_width(new_ui: Callable[..., UI], objects: Objects) -> None:
    ui = new_ui()
    ui.page.goto(ui.url)
    wide = {"sign-in": overflows(ui.page)}
    ui.sign_in(objects.login, objects.name)
    wide["frame"] = overflows(ui.page)
    ui.page.get_by_text("Log out").click()
    ui.sign_in()
    unnamed = []
    for address in objects.addresses(ui):
        open_page(ui, address)
        assert ui.page.locator(".banner").is_hidden(), (address, ui.text(".banner"))
        wide[address] = overflows(ui.page)
        text = shown(ui.page)
        if objects.name not in text and json.dumps(objects.name)[1:-1] not in text and address not in GENERAL:
            unnamed.append(address)
    assert {address: pixels for address, pixels in wide.items() if pixels} == {}
    assert unnamed == []
    expect(ui.open("log").page.get_by_role("log")).to_contain_text(objects.name[:50])
    assert ui.page.locator("img, script:not([src])").count() == 0


def test_the_links_of_lists_lead_to_the_object(new_ui: Callable[..., UI], objects: Objects) -> None:
    ui = new_ui().sign_in()
    for address in LISTS:
        page = ui.open(address).page
        page.locator("section.list").get_by_role("link", name=objects.name, exact=True).last.click()
        expect(page.locator("main:not([aria-busy]) h1 b")).to_have_text(objects.name)
        assert page.url.partition("#/")[2].startswith(f"{address}/")
        assert page.locator(".banner").is_hidden()


def test_messages_and_the_trace_show_them(new_ui: Callable[..., UI], objects: Objects) -> None:
    ui, name = new_ui(), objects.name
    page = ui.sign_in().open(f"queues/{encode(name, name)}").page
    page.get_by_text("Get messages").first.click()
    page.get_by_role("form", name="Get messages").get_by_role("button").click()
    message = page.get_by_role("article", name="Message 1")
    expect(message).to_contain_text(name)
    expect(message.locator("pre")).to_have_text(name)
    assert overflows(page) == {}
    page = ui.open(f"trace?vhost={encode(name)}").page
    page.get_by_role("button", name="Start").click()
    rows = page.get_by_role("table", name="Messages").locator("tbody tr")

    def publish() -> int:
        objects.publish()
        return rows.count()

    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    until(publish, "a message of the trace")
    rows.first.locator("summary").click()
    expect(rows.first.locator("pre")).to_have_text(name)
    assert overflows(page) == {}


def test_the_browser_runs_no_inline_script_and_asks_no_other_host(new_ui: Callable[..., UI]) -> None:
    ui = new_ui()
    ui.page.goto(ui.url)
    for attempt in (INLINE, "fetch('http://127.0.0.2:1/').catch(() => null)"):
        with ui.page.expect_console_message(lambda message: "Content Security Policy" in message.text):
            ui.page.evaluate(attempt)
    assert ui.page.evaluate("window.ran === undefined")
    ui.problems.clear()


def test_they_are_entered_changed_and_deleted_in_the_pages(new_ui: Callable[..., UI], objects: Objects) -> None:
    name = objects.name
    page = new_ui().sign_in().open("queues").page
    form = unfold_form(page, "Add a queue")
    form.get_by_label("Virtual host").select_option("/")
    send(form, "Add queue", {"Name": name})
    page.get_by_label(f"Choose //{name}", exact=True).check()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(name)
    assert overflows(page) == {}
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_label(f"Choose //{name}", exact=True)).to_have_count(0)
