"""Tables in the width of a desktop and of a phone: no column is cut at 1,280 pixels, and a phone shows the numbers."""

from collections.abc import Callable

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .objects import Objects, open_page

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
CUT = """[...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => `${one.getAttribute("aria-label")}: ${one.scrollWidth} of ${one.clientWidth}`)"""
# How many lines a routing key and the largest number take, the one in a narrow column, the other in an effective policy
LINES = """() => {
  const lines = (element) => Math.round(element.offsetHeight / parseFloat(getComputedStyle(element).lineHeight));
  const made = document.createElement("div");
  made.innerHTML = `<div class="scroll"><table><tr><td class="wrap"><div>order.created</div></td>
    <td>${"x".repeat(90)}</td></tr></table></div>
    <dl class="facts"><dt>Effective policy definition</dt><dd>
    <dl class="facts"><dt>max-length-bytes</dt><dd>1000000000000</dd></dl></dd></dl>`;
  document.querySelector("main").append(made);
  return { key: lines(made.querySelector("td div")), number: lines(made.querySelector("dd dd")) };
}"""
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The columns that a phone shows of a list, beside the name
NUMBERS = {
    "queues": ("ready", "unacked"), "connections": ("from", "to"), "channels": ("unacked", "publish", "deliver"),
    "exchanges": ("in", "out"), "vhosts": ("ready", "unacked", "total"), "consumers": ("prefetch",),
    "federation": ("state", "rate"),
}  # fmt: skip


@pytest.fixture(scope="module")
def objects(running: BrokerProcess) -> Objects:
    return Objects(running, "shop")


def test_no_table_is_cut_on_a_desktop(new_ui: Callable[..., UI], objects: Objects) -> None:
    ui = new_ui(viewport=DESKTOP).sign_in()
    found = {}
    for address in objects.addresses(ui):
        open_page(ui, address)
        assert ui.page.evaluate(WIDER) <= 0, address
        found[address] = ui.page.evaluate(CUT)
    assert {address: ones for address, ones in found.items() if ones} == {}


def test_a_phone_shows_the_numbers_of_lists_and_scrolls_nothing_but_tables(
    new_ui: Callable[..., UI], objects: Objects
) -> None:
    ui = new_ui(viewport=PHONE).sign_in()
    for address in objects.addresses(ui):
        open_page(ui, address)
        assert ui.page.evaluate(WIDER) <= 0, address
    for address, columns in NUMBERS.items():
        ui.open(address)
        cells = ui.page.locator("tbody tr").first
        for column in columns:
            box = cells.locator(f".column-{column}").bounding_box()
            assert box is not None and box["x"] + box["width"] <= PHONE["width"], (address, column, box)


def test_the_header_of_a_phone_has_two_lines_with_all_choices(new_ui: Callable[..., UI], objects: Objects) -> None:
    page = new_ui(viewport=PHONE).sign_in().open("queues").page
    header = page.locator("header").bounding_box()
    assert header is not None and header["height"] < 90
    choices = [page.locator("header").get_by_label(label) for label in ("Refresh", "Virtual host", "Theme")]
    for choice in (*choices, page.get_by_role("button", name="Log out")):
        box = choice.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"], choice
    section = page.locator("nav.sections [aria-current]").bounding_box()
    assert section is not None and section["x"] + section["width"] <= PHONE["width"]


def test_a_phone_breaks_no_word_of_a_table_and_no_number_of_a_policy(
    new_ui: Callable[..., UI], objects: Objects
) -> None:
    page = new_ui(viewport=PHONE).sign_in().open("queues").page
    assert page.evaluate(LINES) == {"key": 1, "number": 1}
