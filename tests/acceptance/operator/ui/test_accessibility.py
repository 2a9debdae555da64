"""No page has a fault of accessibility that axe-core calls serious or critical, by day and by night."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .objects import Objects, open_page

AXE = files("axe_playwright_python").joinpath("axe.min.js")
ALL: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS: dict[str, Any] = {**ALL, "runOnly": ["color-contrast", "link-in-text-block"]}  # all that the scheme changes
FAULTS = """options => axe.run(document, options).then(({ violations }) =>
  violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`)))"""

# The ratio of the luminances of a placeholder and its field, which axe-core does not look at
PLACEHOLDER = """() => {
  const luminance = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0.05);
  const field = document.querySelector(".filter");
  const text = luminance(getComputedStyle(field, "::placeholder").color);
  const ground = luminance(getComputedStyle(field).backgroundColor);
  return Math.max(text, ground) / Math.min(text, ground);
}"""
LEAST_RATIO = 4.5
COLOUR_OF_GOOD = """one => {
  one.classList.replace("soft", "good");
  return getComputedStyle(one).color;
}"""


@pytest.fixture(scope="module")
def objects(running: BrokerProcess) -> Objects:
    return Objects(running, "shop")


def faults(ui: UI, options: dict[str, Any]) -> list[str]:
    found: list[str] = ui.page.evaluate(FAULTS, options)
    return found


def test_no_page_has_a_serious_fault_in_either_scheme(new_ui: Callable[..., UI], objects: Objects) -> None:
    ui = new_ui(bypass_csp=True, color_scheme="light")
    ui.page.add_init_script(AXE.read_text(encoding="utf-8"))
    ui.page.goto(ui.url)
    found = {"sign-in": faults(ui, ALL)}
    ui.sign_in()
    for address in objects.addresses(ui):
        open_page(ui, address)
        assert ui.page.locator(".banner").is_hidden(), address
        found[address] = faults(ui, ALL)
        ui.page.emulate_media(color_scheme="dark")
        found[f"{address} in the dark"] = faults(ui, COLOURS)
        ui.page.emulate_media(color_scheme="light")
    assert {address: ones for address, ones in found.items() if ones} == {}


def test_a_dialog_has_no_serious_fault(new_ui: Callable[..., UI], objects: Objects) -> None:
    ui = new_ui(bypass_csp=True)
    ui.page.add_init_script(AXE.read_text(encoding="utf-8"))
    ui.sign_in().open("queues").page.get_by_label("Choose shop/empty").check()
    ui.page.get_by_role("button", name="Delete").click()
    ui.page.get_by_role("dialog").wait_for()
    assert faults(ui, ALL) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_placeholder_can_be_read(new_ui: Callable[..., UI], objects: Objects, scheme: str) -> None:
    ui = new_ui(color_scheme=scheme).sign_in().open("queues")
    assert ui.page.evaluate(PLACEHOLDER) >= LEAST_RATIO


def test_an_idle_queue_has_another_colour_than_one_at_work(new_ui: Callable[..., UI], objects: Objects) -> None:
    page = new_ui().sign_in().open("queues").page
    idle = page.locator(".state").filter(has_text="idle").first
    idle.wait_for()
    assert idle.evaluate("one => getComputedStyle(one).color") != idle.evaluate(COLOUR_OF_GOOD)
