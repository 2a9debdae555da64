"""The whole document: the verdict, contents, sections, and the scripts and styles that it allows itself."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from .charts import Charts, library
from .markup import escape, facts
from .sections import BAD, ODD, Page, Section, sections

Values = dict[str, Any]
HERE = Path(__file__).parent
MOST_BYTES = 2_000_000  # of the document
ROWS = (100, 50, 20, 10, 3)  # of each table: the first number with which the document is small enough
KINDS = {"balanced": "good", "imbalanced": "bad", "incomplete": "odd", "sampled": "odd"}
MARKS = {"bad": "problem", "odd": "warning", "normal": ""}


def document(report: Values) -> str:
    """Return the page of a report, given the content of its report.json."""
    for rows in ROWS:
        text = written(report, rows)
        if len(text.encode("utf-8", "surrogatepass")) <= MOST_BYTES:
            break
    return text


def written(report: Values, rows: int) -> str:
    charts = Charts(report["timeline"]) if report.get("timeline") else None
    made = sections(Page(report, charts, rows))
    uplot, uplot_css = library()
    style = (HERE / "page.css").read_text("utf-8") + uplot_css
    script = (HERE / "page.js").read_text("utf-8")
    scripts = [uplot, script]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(allowed, scripts))}; style-src {allowed(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    contents = "".join(contents_entry(section) for section in made)
    body = "\n".join(map(written_section, made))
    figures = charts.data() if charts is not None else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Warren: where every message went</title>
<style>{style}</style></head>
<body><header><h1>Where every message went</h1>
{verdict(report)}
<h2>Totals</h2>{facts(report["totals"])}
<nav aria-label="Contents"><h2>Contents</h2><ol>{contents}</ol></nav></header>
<main>
{body}
</main>
{figures}
{"".join(f"<script>{text}</script>" for text in scripts)}
</body></html>
"""


def allowed(text: str) -> str:
    """Return the source of a content security policy that allows exactly this script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def verdict(report: Values) -> str:
    kind = KINDS.get(report["conservation"]["status"], "odd")
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in report.get("reasons") or [])
    listed = f"<ul>{reasons}</ul>" if reasons else ""
    return f'<div class="verdict {kind}"><p><strong>{escape(report["verdict"])}</strong></p>{listed}</div>'


def mark(section: Section) -> str:
    return "bad" if section.impact >= BAD else "odd" if section.impact >= ODD else "normal"


def contents_entry(section: Section) -> str:
    finding = f'<span class="finding">{escape(section.finding)}</span>'
    return f'<li><a href="#{section.id}">{section.title}</a>{marked(section)} {finding}</li>'


def marked(section: Section) -> str:
    kind = mark(section)
    return f' <span class="mark {kind}">{MARKS[kind]}</span>' if MARKS[kind] else ""


def written_section(section: Section) -> str:
    return (
        f'<section id="{section.id}" class="{mark(section)}"><h2>{section.title}{marked(section)}</h2>'
        f'<p class="finding">{escape(section.finding)}</p>{section.body}</section>'
    )
