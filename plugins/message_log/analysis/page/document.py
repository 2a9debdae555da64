"""The page of a report: one file with the report's data, and the scripts and styles that draw it."""

import base64
import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from .... import web
from ...file_format.printable import count
from ..health import trace_command
from .parts import cut
from .sections import BAD, ODD, Page, Section, sections

Values = dict[str, Any]
HERE = Path(__file__).parent
MOST_BYTES = 2_000_000  # of the document
ROWS = (100, 50, 20, 10, 3)  # of each table: the first number with which the document is small enough,
LENGTHS = (5_000, 300, 48)  # or also the first of these lengths of texts, in characters
KINDS = {"balanced": "good", "imbalanced": "bad", "incomplete": "odd", "sampled": "odd"}
HEALTH = {"well": "good", "wrong": "bad", "unknown": "odd"}
FINDINGS = 10  # of what is wrong now that are listed


def document(report: Values) -> str:
    """Return the page of a report, given the content of its report.json."""
    for rows in ROWS:
        shown = content(report, rows)
        text = page(shown)
        if len(text.encode()) <= MOST_BYTES:
            return text
    for length in LENGTHS:
        text = page(shortened(shown, length))
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def shortened(value: Any, length: int) -> Any:
    """Return data with texts of at most this length."""
    if isinstance(value, str):
        return cut(value, length)
    if isinstance(value, dict):
        return {name: shortened(each, length) for name, each in value.items()}
    return [shortened(each, length) for each in value] if isinstance(value, list | tuple) else value


def content(report: Values, rows: int) -> Values:
    """Return the data of the page, with at most `rows` rows in each table."""
    timeline, health, wrong = report.get("timeline"), report["health"], report["wrong_now"]
    total = max(report["rows"].get("wrong_now", 0), len(wrong))
    start = datetime.fromisoformat(timeline["start"]).timestamp() if timeline else None
    return {
        "verdict": report["verdict"],
        "kind": KINDS.get(report["conservation"]["status"], "odd"),
        "reasons": report.get("reasons") or [],
        "health": f"{count(total, 'thing')} wrong now, the worst first:" if wrong else health["sentence"],
        "health_kind": HEALTH[health["status"]],
        "wrong": [
            {"line": row["line"], "trace": trace_command(row["message"], report["input"]["folder"])}
            for row in wrong[:FINDINGS]
        ],
        "more_wrong": max(total - FINDINGS, 0),
        "totals": report["totals"],
        "start": start,
        "step": timeline["step_s"] if timeline else None,
        "sections": [section_content(section) for section in sections(Page(report, rows))],
    }


def section_content(section: Section) -> Values:
    mark = "bad" if section.impact >= BAD else "odd" if section.impact >= ODD else "normal"
    shown = {"id": section.id, "title": section.title, "mark": mark}
    return {**shown, "finding": section.finding, "parts": section.parts}


def page(content: Values) -> str:
    """Return the document, which refers to nothing outside of itself."""
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    style = "".join(path.read_text("utf-8") for path in (*web.STYLES, HERE / "page.css"))
    scripts = [web.UPLOT.read_text("utf-8"), web.bundle(HERE / "report.js")]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(allowed, scripts))}; style-src {allowed(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Warren: where every message went</title>
<style>{style}</style></head>
<body><noscript>This page needs JavaScript. The same figures are in report.json beside it.</noscript>
<script type="application/json" id="report">{data}</script>
{"".join(f"<script>{text}</script>" for text in scripts)}
</body></html>
"""


def allowed(text: str) -> str:
    """Return the source of a content security policy that allows exactly this script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
