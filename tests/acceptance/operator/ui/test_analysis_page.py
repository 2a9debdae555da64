"""The page of an analysis in a browser: figures, charts, sorting and filter, with hostile names, light and dark."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.analytics.made_up import HOSTILE, report
from tests.support.browser import PATIENCE_MS, UI
from warren.plugins.message_log.analysis.page.document import document
from warren.plugins.message_log.analysis.page.parts import BOXES, FLOW_HEIGHT, Edge, flow

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
def test_hostile_names_fit_in_each_scheme(show: Show, scheme: str, colour: str, width: int) -> None:
    page = show(lambda name: f"{HOSTILE} {name}", color_scheme=scheme, viewport={"width": width, "height": 800})
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = r"<script>alert('x')</script>&" + '"' + r"\x00\x1b\u202e"
    for name in ("imbalances", "queues", "latency", "flow"):
        expect(page.locator(f"#{name}")).to_contain_text(shown[:20])
    titles = page.evaluate("[...document.querySelectorAll('[title]')].map((one) => one.title)")
    assert any(title.startswith(shown) and "-the end" in title for title in titles)
    assert not set(page.content()) & set("\x00\x1b\u202e")


def test_each_section_shows_its_figures(show: Show) -> None:
    page = show()
    head = page.locator("header").inner_text()
    assert head.index("12 things wrong now") < head.index("queue 0: stuck\nwarren trace b1/0 --input /var/export")
    assert head.index("and 2 more") < head.index("The log does not balance") < head.index("the reason")
    for section, text in (
        *(("latency", "p99 up to 2.5 s"), ("latency", "and 1,000 more"), ("queues", "queue 3"), ("flow", "guest")),
        *(("brokers", "953.7 MiB"), ("brokers", "channels")),
        *(("compared", "+100.0 %"), ("compared", "new"), ("compared", "1.5 ms"), ("log", "2026-11-22 05:30:00.000")),
        *(("keys", "50 %"), ("log", "yes"), ("redelivered", "24 redeliveries")),
    ):
        expect(page.locator(f"#{section}")).to_contain_text(text)
    expect(page.locator("#latency svg")).to_contain_text("from 3.16 ms")
    messages = page.locator("#latency rect title").all_text_contents()
    heat = report(rows=12)["timeline"]["ack_latency"]["messages"]
    assert sum(int(text.split(": ")[1].split()[0]) for text in messages) == sum(map(sum, heat))


def test_durations_have_two_units_or_three_digits(show: Show) -> None:
    durations = {
        0: "0 s", 3.164e-6: "3.16 µs", 0.0042: "4.2 ms", 2.5: "2.5 s", 90: "1 min 30 s", 187_200: "2 d 4 h", -5: "-5 s",
    }  # fmt: skip
    shown = show().evaluate("(all) => all.map(format_module.duration)", list(durations))
    assert shown == list(durations.values())


def test_a_flow_is_within_its_picture_and_has_all_messages(show: Show) -> None:
    page, made = show(), random.Random(3)
    for size in (1, 2, 10, 60):
        edges = [
            Edge((0, f"x{made.randrange(31)}"), (1, f"q{made.randrange(31)}"), made.randrange(1, 10**9))
            for _ in range(size)
        ]
        bottom, boxes, ribbons = page.evaluate(
            """part => {
              const picture = drawings_module.flow(part).querySelector("svg");
              const numbers = (one) => ["y", "height"].map((name) => Number(one.getAttribute(name)));
              return [picture.viewBox.baseVal.height, [...picture.querySelectorAll("rect")].map(numbers),
                [...picture.querySelectorAll("path title")].map((one) => one.textContent)];
            }""",
            flow(edges, ("Exchanges", "Queues")),
        )
        assert len(boxes) <= 2 * (BOXES + 1) and max(height for _, height in boxes) <= FLOW_HEIGHT
        assert all(y + height <= bottom for y, height in boxes)
        messages = [int(text.rpartition(": ")[2].split()[0].replace(",", "")) for text in ribbons]
        assert sum(messages) == sum(edge.messages for edge in edges)


def test_charts_are_drawn_when_they_come_into_view_and_lines_can_be_hidden(show: Show) -> None:
    page = show()
    chart = page.locator("#queues figure.chart >> nth=0")
    chart.scroll_into_view_if_needed()
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
    page.locator("#flow summary", has_text="Connections").click()
    table = page.locator("#flow details:last-of-type .list")
    rows = table.locator("tbody tr")
    total = table.locator("th", has_text="messages")
    total.get_by_role("button").click()
    expect(total).to_have_attribute("aria-sort", "descending")
    expect(rows.first.locator("td").last).to_have_text("16")
    total.get_by_role("button").click()
    expect(rows.first.locator("td").last).to_have_text("5")
    queue = table.locator("th", has_text="queue")
    queue.get_by_role("button").click()
    expect(rows.nth(2)).to_contain_text("queue 2")  # 10 and 11 are after 9
    table.get_by_label("filter").fill("QUEUE 11")
    expect(table.locator("tbody tr:visible")).to_have_count(1)
    expect(table.locator("[role=status]")).to_have_text("Displaying 1 of 1, filtered from 12")


def test_contents_lead_to_sections(show: Show) -> None:
    page = show(viewport={"width": 1280, "height": 600})
    page.set_default_timeout(PATIENCE_MS)
    ids = page.evaluate("[...document.querySelectorAll('main > section')].map((one) => `#${one.id}`)")
    assert ids == page.evaluate("[...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href'))")
    page.get_by_role("navigation", name="Contents").get_by_role("link", name="Latency").click()
    expect(page.locator("#latency h2")).to_be_in_viewport()
