"""The page: its data, in which order and of which size, and that it takes no text of a log for HTML."""

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.plugins.message_log.analysis.compare import UnusableReport, compare, parse
from warren.plugins.message_log.analysis.page.document import MOST_BYTES, ROWS, allowed, content, document
from warren.plugins.message_log.analysis.page.parts import BOXES, Edge, cut, folded, table

from .made_up import HOSTILE, report

SCRIPT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)
DATA = ' type="application/json" id="report"'


def sections(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections of a report's page by their ids, in their order."""
    return {section["id"]: section for section in content(made, ROWS[0])["sections"]}


def scripts(text: str) -> list[str]:
    """The scripts of a document without its data."""
    return [script for attributes, script in SCRIPT.findall(text) if attributes != DATA]


def data(text: str) -> Any:
    return json.loads(next(script for attributes, script in SCRIPT.findall(text) if attributes == DATA))


def healthy() -> dict[str, Any]:
    """Return the report of a system in which messages are returned, redelivered, expire and are lost by no restart."""
    well = report(status="balanced") | {
        "health": {"status": "well", "sentence": "Nothing is wrong now."},
        "wrong_now": [],
    }
    well["conservation"] |= {"imbalances": [], "imbalance_count": 0, "reasons": []}
    well["conservation"]["files"]["missing"] = 0
    well["input"] |= {"skipped": {}, "missing_hours": [], "clock_jumps": []}
    well["durability"] = [row | {"lost": 0, "at_risk": 0, "missing": 0} for row in well["durability"]]
    well["links"] = [row | {"missing": 0, "failures": 1} for row in well["links"]]
    well["rows"]["wrong_now"] = 0
    return well | {"reasons": [], "compared": None}


def test_what_is_wrong_comes_first() -> None:
    order = list(sections(report()))
    assert order[:4] == ["imbalances", "restarts", "log", "links"]
    assert order.index("queues") < order.index("flow") and order.index("unroutable") < order.index("keys")
    assert "imbalances" not in sections(healthy())


def test_only_the_verdict_and_what_is_wrong_now_are_marked() -> None:
    shown = sections(healthy())
    assert {section["mark"] for section in shown.values()} == {"normal"} and len(shown) == 13
    causes = {
        "queues": ("stuck", "no consumer", "slow", "growing", "blocked"),
        "redelivered": ("poison",),
        "unroutable": ("unroutable",),
    }
    for section, of_section in causes.items():
        for cause in of_section:
            found = {"node": "a", "vhost": "/", "queue": "q", "cause": cause, "line": "q: so", "message": None}
            marks = {key: one["mark"] for key, one in sections(healthy() | {"wrong_now": [found]}).items()}
            assert marks[section] != "normal", cause
            assert {key for key, mark in marks.items() if mark != "normal"} <= {section, "consumers"}


def test_both_headlines_are_at_the_top() -> None:
    top = content(report(rows=12), ROWS[0])
    assert (top["health"], top["health_kind"], top["kind"]) == ("12 things wrong now, the worst first:", "bad", "bad")
    assert top["wrong"][0] == {"line": "queue 0: stuck", "trace": "warren trace b1/0 --input /var/export"}
    assert (len(top["wrong"]), top["more_wrong"]) == (10, 2)
    well = content(healthy(), ROWS[0])
    assert (well["health"], well["health_kind"], well["kind"]) == ("Nothing is wrong now.", "good", "good")
    assert well["wrong"] == [] and well["more_wrong"] == 0


def test_a_table_has_the_first_rows_and_the_number_of_the_others() -> None:
    (latencies,) = sections(report())["latency"]["parts"][-1]["parts"]
    assert (latencies["kind"], len(latencies["rows"]), latencies["more"]) == ("table", 8, 1_000)
    rows = [{"queue": f"q{at}", "node": None, "msg_seq": 2**60 + at} for at in range(9)]
    (made,) = table(rows, "Queues", 3)
    assert (made["columns"], made["more"]) == (["queue", "msg_seq"], 6)
    assert made["rows"][1] == ["q1", str(2**60 + 1)]  # a number that JavaScript would round


def test_charts_have_a_value_for_each_second_and_zeros_for_silent_ones() -> None:
    made = report()
    page = content(made, ROWS[0])
    charts = [
        part
        for section in page["sections"]
        for parent in section["parts"]
        for part in (parent, *parent.get("parts", ()))
        if part["kind"] == "chart"
    ]
    assert {len(values) for chart in charts for _, values in chart["lines"]} == {60}
    assert (page["step"], page["start"]) == (1, 1795325400)
    rates = next(chart for chart in charts if len(chart["lines"]) == 3)
    entered, left, gap = (values for _, values in rates["lines"])
    assert entered == made["timeline"]["rates"][0]["entered"] and set(entered[20:40]) == {0}
    assert gap == pytest.approx([one - other for one, other in zip(entered, left, strict=True)], abs=0.001)


@pytest.mark.parametrize(("repeats", "rows"), [(0, 600), (5, 600), (100, 12)])
def test_a_page_is_small_however_long_the_report_and_its_names(repeats: int, rows: int) -> None:
    name = (lambda one: f"{HOSTILE}{one}" * repeats) if repeats else str
    made = report(name, rows=rows, queues=40)
    text = document(made)
    assert len(text.encode()) <= MOST_BYTES
    assert [section["id"] for section in data(text)["sections"]] == list(sections(made))


def test_a_page_names_nothing_outside_of_itself_and_allows_only_its_own_scripts() -> None:
    text = document(report())
    assert "default-src 'none'" in text
    assert not re.search(r'\b(?:src|href)="(?!#)', text) and "@import" not in text and "url(" not in text
    policy = re.findall(r"'sha256-[^']+'", text)
    assert [allowed(script) for script in scripts(text)] == policy[:2]


def test_a_report_of_nothing_has_a_page() -> None:
    nothing = report(rows=0, queues=0, status="incomplete") | {"timeline": None, "compared": None}
    assert data(document(nothing | {"links": [], "churn": [], "capacity": []}))["sections"]


def text_of_any_kind() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec=None), max_size=300)


@given(text_of_any_kind())
def test_any_name_is_data_and_no_html(name: str) -> None:
    made = report(lambda _: name, rows=1, queues=1)
    text = document(made)
    assert text.count("<script") == 3 == text.count("</script") and len(scripts(text)) == 2
    assert data(text) == json.loads(json.dumps(content(made, ROWS[0])))


@given(text_of_any_kind(), st.integers(1, 80))
def test_a_cut_name_is_short(name: str, length: int) -> None:
    assert len(cut(name, length)) <= length


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 10**9)), max_size=60))
def test_a_flow_has_few_boxes_with_all_messages(triples: list[tuple[int, int, int]]) -> None:
    edges = [Edge((0, f"x{source}"), (1, f"q{target}"), messages) for source, target, messages in triples]
    few = folded(edges)
    boxes = Counter(column for column, _ in {end for edge in few for end in (edge.source, edge.target)})
    assert all(count <= BOXES + 1 for count in boxes.values())
    assert sum(edge.messages for edge in few) == sum(edge.messages for edge in edges)


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
    with pytest.raises(UnusableReport):
        parse(text)
