"""The page of an analysis in a browser: charts, sorting and filter, with hostile names, light and dark."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.analytics.made_up import HOSTILE, report
from tests.support.browser import PATIENCE_MS, UI
from warren.plugins.message_log.analysis.page import charts
from warren.plugins.message_log.analysis.page.document import document

DARK, LIGHT = "rgb(20, 24, 22)", "rgb(246, 247, 246)"
Show = Callable[..., Page]


@pytest.fixture
def show(chrome: Browser, tmp_path: Path) -> Iterator[Show]:
    """Shows the page of a made-up report; a page with a failed or refused script fails the test."""
    tabs: list[UI] = []

    def shown(name: Callable[[str], str] = str, **options: object) -> Page:
        file = tmp_path / "index.html"
        file.write_text(document(report(name, rows=12)), encoding="utf-8")
        tabs.append(UI(chrome.new_context(**options).new_page(), file.as_uri()))  # type: ignore[arg-type]
        tabs[-1].page.goto(file.as_uri())
        return tabs[-1].page

    yield shown
    problems = [problem for tab in tabs for problem in tab.problems]
    for tab in tabs:
        tab.page.context.close()
    assert problems == []


@pytest.mark.parametrize(("scheme", "colour"), [("light", LIGHT), ("dark", DARK)])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_page_with_hostile_names_follows_the_scheme_and_fits(
    show: Show, scheme: str, colour: str, width: int
) -> None:
    page = show(lambda name: f"{HOSTILE} {name}", color_scheme=scheme, viewport={"width": width, "height": 800})
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator("#imbalances")).to_contain_text("<script>alert('x')</script>")


def test_charts_are_drawn_when_they_come_into_view_and_lines_can_be_hidden(show: Show) -> None:
    page = show()
    chart = page.locator("#lag figure.chart")
    chart.scroll_into_view_if_needed()
    if not charts.library()[0]:
        expect(chart).to_contain_text("not installed")
        return
    expect(chart.locator("canvas")).to_be_visible()
    entry = chart.locator(".legend button").first
    expect(entry).to_have_attribute("aria-pressed", "true")
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "false")
    expect(chart.locator(".legend b").first).to_contain_text("at most")
    chart.locator(".u-over").hover(position={"x": 200, "y": 60})
    expect(chart.locator(".legend b").first).to_contain_text(" at 05:30:")
    page.emulate_media(color_scheme="dark")
    expect(chart.locator("canvas")).to_be_visible()
    page.emulate_media(media="print")
    expect(chart.locator("canvas")).to_be_visible()


def test_tables_sort_by_text_and_number_and_filter(show: Show) -> None:
    page = show()
    rows = page.locator("#clients tbody tr")
    total = page.locator("#clients th", has_text="messages")
    total.get_by_role("button").click()
    expect(total).to_have_attribute("aria-sort", "descending")
    expect(rows.first.locator("td").last).to_have_text("16")
    total.get_by_role("button").click()
    expect(rows.first.locator("td").last).to_have_text("5")
    queue = page.locator("#clients th", has_text="queue")
    queue.get_by_role("button").click()
    expect(rows.nth(2)).to_contain_text("queue 2")  # 10 and 11 are after 9
    page.locator("#clients").get_by_label("Filter").fill("QUEUE 11")
    expect(page.locator("#clients tbody tr:visible")).to_have_count(1)
    expect(page.locator("#clients output")).to_have_text("1 of 12 rows")


def test_contents_lead_to_sections(show: Show) -> None:
    page = show(viewport={"width": 1280, "height": 600})
    page.set_default_timeout(PATIENCE_MS)
    page.get_by_role("navigation", name="Contents").get_by_role("link", name="Latency by stage").click()
    expect(page.locator("#latency h2")).to_be_in_viewport()
