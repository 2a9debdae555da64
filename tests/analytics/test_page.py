"""The page: what it shows, in which order, of which size, and that it takes no text of a log for HTML."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.plugins.message_log.analysis.compare import NoReport, compare, parse
from warren.plugins.message_log.analysis.page import document as page
from warren.plugins.message_log.analysis.page.document import MOST_BYTES, document
from warren.plugins.message_log.analysis.page.drawings import BOXES, HEIGHT, Edge, flow
from warren.plugins.message_log.analysis.page.markup import cut, duration, value

from .made_up import HOSTILE, report

VOID = {"meta", "input", "path", "rect"}


class Reader(HTMLParser):
    """A page as it is parsed: the text below each section, its tables, links, titles, and the contents of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.section = ""
        self.sections: dict[str, str] = {}
        self.links: list[str] = []
        self.titles: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.labels: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: held or "" for name, held in attrs}
        self.attributes += values.items()
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = values["id"]
            self.sections[self.section] = ""
        if tag == "script":
            self.scripts.append("")
        if tag == "a":
            self.links.append(values["href"])
        if "title" in values:
            self.titles.append(values["title"])

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.getpos())
        if tag == "section":
            self.section = ""

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.section:
            self.sections[self.section] += data


def test_the_verdict_is_on_top_and_contents_link_to_all_sections() -> None:
    text = document(report())
    read = Reader(text)
    assert read.open == []
    assert text.index("It does not add up") < text.index("the reason") < text.index("Contents") < text.index("<section")
    assert [link.removeprefix("#") for link in read.links] == list(read.sections)


def test_what_is_wrong_comes_first() -> None:
    order = list(Reader(document(report())).sections)
    assert order[:4] == ["imbalances", "durability", "log", "links"]
    assert order.index("lag") < order.index("clients") and order.index("unroutable") < order.index("rates")
    well = report(status="balanced")
    well["conservation"] |= {"imbalances": [], "imbalance_count": 0, "links": []}
    well |= {"durability": [], "links": [], "unroutable": []}
    order = list(Reader(document(well)).sections)
    assert "imbalances" not in order and "durability" not in order


def test_each_section_shows_its_figures() -> None:
    read = Reader(document(report()))
    assert "2.5 s" in read.sections["latency"] and "and 1,000 more" in read.sections["latency"]
    assert "queue 3" in read.sections["lag"] and "guest" in read.sections["clients"]
    assert "too short to tell" in read.sections["brokers"] and "in 12 h" in read.sections["brokers"]
    assert "from 3.16 ms" in read.sections["ack-latency"]
    assert "+100.0 %" in read.sections["compared"] and "new" in read.sections["compared"]
    assert "2026-11-22 05:30:00.000" in read.sections["log"]


def test_charts_have_a_value_for_each_second_and_zeros_for_silent_ones() -> None:
    made = report()
    read = Reader(document(made))
    (figures,) = [json.loads(script) for script in read.scripts if script.startswith("{")]
    assert {len(line) for chart in figures["charts"].values() for line in chart["lines"]} == {60}
    assert (figures["step"], figures["start"]) == (1, 1795325400)
    rates = next(chart for chart in figures["charts"].values() if len(chart["lines"]) == 3)
    entered, left, gap = rates["lines"]
    assert entered == made["timeline"]["rates"][0]["entered"] and set(entered[20:40]) == {0}
    assert gap == pytest.approx([one - other for one, other in zip(entered, left, strict=True)], abs=0.001)


def test_hostile_names_are_text_and_are_cut_with_the_whole_in_a_title() -> None:
    text = document(report(lambda name: f"{HOSTILE} {name}"))
    read = Reader(text)
    own = 3  # the figures, uPlot, and the script of the page
    assert len(read.scripts) == own and text.count("<script") == own
    assert not any(name.startswith("on") for name, _ in read.attributes)
    assert not set(text) & set("\x00\x1b\u202e")
    shown = r"<script>alert('x')</script>&" + '"' + r"\x00\x1b\u202e"
    assert all(shown[:20] in read.sections[name] for name in ("imbalances", "lag", "latency", "clients", "flow"))
    assert any(title.startswith(shown) and "-the end" in title for title in read.titles)
    cells = re.findall(r"<td>(?:<span[^>]*>)?([^<]*)", text)
    assert max(map(len, cells)) < 300


@pytest.mark.parametrize("long", [False, True])
def test_a_page_is_small_however_long_the_report(long: bool) -> None:
    name = (lambda one: f"{HOSTILE}{one}" * 5) if long else str
    text = document(report(name, rows=600, queues=40))
    assert len(text.encode()) <= MOST_BYTES
    assert set(Reader(text).sections) == set(Reader(document(report())).sections)


def test_a_page_names_nothing_outside_of_itself_and_allows_only_its_own_scripts() -> None:
    text = document(report())
    assert "default-src 'none'" in text
    assert not re.search(r'\b(?:src|href)="(?!#)', text) and "@import" not in text and "url(" not in text
    allowed = re.findall(r"'sha256-[^']+'", text)
    scripts = [script for script in Reader(text).scripts if not script.startswith("{")]
    assert [page.allowed(script) for script in scripts] == allowed[: len(scripts)]


def test_a_report_of_nothing_has_a_page() -> None:
    nothing = report(rows=0, queues=0, status="incomplete") | {"timeline": None, "compared": None}
    assert list(Reader(document(nothing | {"links": [], "churn": [], "capacity": []})).sections)


def text_of_any_kind() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec=None), max_size=300)


@given(text_of_any_kind())
def test_any_name_is_shown_without_being_html(name: str) -> None:
    read = Reader(document(report(lambda _: name, rows=1, queues=1)))
    assert read.open == [] and all(not name.startswith("on") for name, _ in read.attributes)


@given(text_of_any_kind(), st.integers(1, 80))
def test_a_cut_name_is_short_and_visible(name: str, length: int) -> None:
    shown = cut(name, length)
    assert len(shown) <= length and "\x00" not in shown


@given(st.floats(0, 1e9))
def test_a_duration_is_what_it_was_to_three_digits(seconds: float) -> None:
    number, unit = duration(seconds).replace(",", "").split()
    sizes = {"d": 86_400, "h": 3_600, "min": 60, "s": 1, "ms": 1e-3, "µs": 1e-6}
    assert float(number) * sizes[unit] == pytest.approx(seconds, rel=0.006, abs=1e-6)


def test_values_have_the_unit_of_their_column() -> None:
    assert value("p99_us", 2_500_000) == "2.5 s" and value("disk_bytes", 3 * 2**30) == "3 GiB"
    assert value("mean_per_s", 0.25) == "0.25" and value("share", 0.125) == "12.5 %"
    assert value("stopped", True) == "yes" and value("queue", None) == ""


def numbers_of(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 10**9)), max_size=60))
def test_a_flow_is_within_its_picture_and_names_few(triples: list[tuple[int, int, int]]) -> None:
    edges = [Edge((0, f"x{source}"), (1, f"q{target}"), messages) for source, target, messages in triples]
    if not any(edge.messages for edge in edges):
        return
    drawn = flow(edges, ("Exchanges", "Queues"))
    bottom = numbers_of(drawn, r'viewBox="0 0 [\d.]+ ([\d.]+)"')[0]
    heights = numbers_of(drawn, r'<rect [^>]*height="([\d.]+)"')
    assert len(heights) <= 2 * (BOXES + 1) and max(heights) <= HEIGHT
    assert max(numbers_of(drawn, r'<rect [^>]* y="([\d.]+)"')) < bottom
    assert sum(edge.messages for edge in edges) == sum(
        map(int, re.findall(r": (\d+) messages?</title></path>", drawn.replace(",", "")))
    )


def test_two_reports_are_compared_with_the_larger_changes_first() -> None:
    old: dict[str, Any] = {"verdict": "fine", "input": {"folder": "/old"}, "totals": {"published": 100, "expired": 0}}
    new = {"totals": {"published": 110, "expired": 50, "dropped": 0}}
    queue = {"node": "n", "vhost": "/", "queue": "q", "stage": "publish_ack"}
    old["latency"] = [{**queue, "p50_us": 10, "p99_us": 100, "max_us": 100}]
    new["latency"] = [{**queue, "p50_us": 10, "p99_us": 1, "max_us": 101}]  # type: ignore[dict-item]
    difference = compare(old, new)
    assert difference["with"] == {"folder": "/old", "verdict": "fine"}
    assert [(row["figure"], row["change"]) for row in difference["totals"]] == [
        ("expired", None),
        ("published", 10.0),
        ("dropped", None),
    ]
    assert [(row["figure"], row["change"]) for row in difference["latencies"]] == [("p99_us", -99.0), ("max_us", 1.0)]
    assert compare(new, new)["latencies"] == [] == compare(new, new)["totals"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"totals": 1}'])
def test_what_is_no_report_is_not_compared_with(text: str) -> None:
    with pytest.raises(NoReport):
        parse(text)
