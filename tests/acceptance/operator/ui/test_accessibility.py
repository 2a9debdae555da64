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
