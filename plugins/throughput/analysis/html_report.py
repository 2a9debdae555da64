"""The report as one HTML page: charts by plotly, which is embedded in the page, and the lists of the report."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

ROWS = 50  # of each table
BARS = 15
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1c2530 }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid #dde3ea }
th { font-weight: 600 } .scroll { overflow-x: auto }
.verdict { padding: .7rem 1rem; border-left: .4rem solid #b3261e; background: #fbeceb }
.verdict.balanced { border-color: #1b7f4b; background: #e9f6ef }
"""
Values = dict[str, Any]
TITLES = {
    "durability": "Durability: persistent messages before and after restarts",
    "throughput": "Throughput",
    "latency": "Latency",
    "backlog": "Backlog",
    "hot_exchanges": "Exchanges by messages",
    "hot_keys": "Routing keys by messages",
    "hash_advice": "What hash exchanges would make of the keys",
    "unroutable": "Unroutable",
    "given_up": "Expired, dropped and dead-lettered",
    "redelivered": "Redelivered",
    "poison": "Messages that keep coming back",
    "links": "Federation links",
    "consumers": "Consumers",
    "churn": "Connections, channels and queues that came and went",
    "anomalies": "Minutes unlike the others",
    "capacity": "Capacity",
}


def page(report: Values, flows: list[Values], depths: list[Values]) -> str:
    """Return the page. `flows` are messages by `start` and `flow`, `depths` messages by `at` and `queue`."""
    parts = [
        verdict(report["verdict"], report["conservation"]),
        table([report["totals"]]),
        *charts(report, flows, depths),
    ]
    for name, title in TITLES.items():
        rows = report.get(name, [])
        if rows:
            parts.append(f"<h2>{html.escape(title)}</h2>{table(rows, report.get('rows', {}).get(name))}")
    parts.append(f"<h2>Input</h2>{table([report['input']])}")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Warren: throughput</title>'
        f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head>\n"
        f"<body><h1>Where every message went</h1>\n{body}\n</body></html>\n"
    )


def verdict(sentence: str, conservation: Values) -> str:
    """Return the result of the conservation check as HTML."""
    kind = "balanced" if conservation["balanced"] else "not"
    reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in conservation["reasons"])
    section = f'<div class="verdict {kind}"><strong>{html.escape(sentence)}</strong><ul>{reasons}</ul></div>'
    if conservation["imbalances"]:
        section += f"<h2>Imbalances</h2>{table(conservation['imbalances'], conservation['imbalance_count'])}"
    if conservation["restarts"]:
        section += f"<h2>Restarts</h2>{table(conservation['restarts'])}"
    return section


def charts(report: Values, flows: list[Values], depths: list[Values]) -> Iterable[str]:
    """Yield each chart as HTML."""
    if flows:
        yield lines("Messages a second", flows, "start", "flow", "per_s")
    if depths:
        yield lines("Messages that wait, by queue", depths, "at", "queue", "messages")
    if report["latency"]:
        worst = report["latency"][:BARS]
        names = [f"{row['stage']} {row['queue'] or row['vhost'] or ''}" for row in worst]
        figures = [(name, [row[name] / 1000 for row in worst]) for name in ("p50_us", "p90_us", "p99_us", "p999_us")]
        bars = [go.Bar(name=name.removesuffix("_us"), x=list(map(html.escape, names)), y=y) for name, y in figures]
        yield to_html(go.Figure(bars), "Latency, slowest first, in milliseconds", "log")
    if report["hot_keys"]:
        keys = report["hot_keys"][:BARS]
        names = [html.escape(f"{row['exchange'] or '(default)'} {row['routing_key'] or ''}") for row in keys]
        yield to_html(go.Figure(go.Bar(x=names, y=[row["published"] for row in keys])), "Messages by routing key")


def lines(title: str, rows: list[Values], x: str, by: str, y: str) -> str:
    figure = go.Figure()
    for name in dict.fromkeys(row[by] for row in rows):
        across, up = zip(*[(row[x], row[y]) for row in rows if row[by] == name], strict=True)
        figure.add_scatter(name=html.escape(str(name)), x=across, y=up, mode="lines")
    return to_html(figure, title)


def to_html(figure: Any, title: str, scale: str = "linear") -> str:
    figure.update_layout(title=title, template="plotly_white", height=380, margin={"t": 50, "b": 40, "l": 60, "r": 20})
    figure.update_yaxes(type=scale)
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    return text


def table(rows: list[Values], count: int | None = None) -> str:
    """Return the first rows as HTML; `count` is the number of all rows."""
    columns = list(dict.fromkeys(name for row in rows[:ROWS] for name in row))
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(format_value(row.get(name)))}</td>" for name in columns) + "</tr>"
        for row in rows[:ROWS]
    )
    more = max(count or 0, len(rows)) - ROWS
    note = f"<p>and {more:,} more in the tables</p>" if more > 0 else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>{note}'


def format_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {format_value(each)}" for name, each in value.items())
    return str(value)
