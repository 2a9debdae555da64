"""Two reports compared: the differences of totals, rates and latencies, the larger changes first."""

from __future__ import annotations

import json
import math
from typing import Any

from .report_rows import LISTED

Values = dict[str, Any]
RATE = ("scope", "node", "vhost", "name", "flow")
LATENCY = ("node", "vhost", "queue", "stage")
RATES, LATENCIES = ("mean_per_s", "peak_per_s"), ("p50_us", "p99_us", "max_us")


class NoReport(Exception):
    """An error of one line, for a report that cannot be compared with."""


def parse(text: str) -> Values:
    """Return a report from the content of its report.json. Raises NoReport."""
    try:
        report = json.loads(text)
    except ValueError as error:
        raise NoReport(f"not JSON: {error}") from None
    if not isinstance(report, dict) or not isinstance(report.get("totals"), dict):
        raise NoReport("no report of an analysis: it has no totals")
    return report


def compare(old: Values, new: Values) -> Values:
    """Return the section "compared" of report.json: rows with the values before and after."""
    return {
        "with": {"folder": old.get("input", {}).get("folder"), "verdict": old.get("verdict")},
        "totals": rows({("total",): old["totals"]}, {("total",): new["totals"]}, (), tuple(new["totals"])),
        "rates": rows(keyed(per_second(old), RATE), keyed(per_second(new), RATE), RATE, RATES),
        "latencies": rows(keyed(latency(old), LATENCY), keyed(latency(new), LATENCY), LATENCY, LATENCIES),
    }


def per_second(report: Values) -> list[Values]:
    return [row for row in report.get("throughput", []) if row.get("grain") == "1s"]


def latency(report: Values) -> list[Values]:
    rows: list[Values] = report.get("latency", [])
    return rows


def keyed(of: list[Values], names: tuple[str, ...]) -> dict[tuple[Any, ...], Values]:
    return {tuple(row.get(name) for name in names): row for row in of}


def rows(
    old: dict[tuple[Any, ...], Values],
    new: dict[tuple[Any, ...], Values],
    names: tuple[str, ...],
    figures: tuple[str, ...],
) -> list[Values]:
    """Return the figures that differ, with `change` in per cent; it is null for what was 0 or is in one report only."""
    changed = []
    for key in {**old, **new}:
        for figure in figures:
            before, after = (each.get(key, {}).get(figure) for each in (old, new))
            if before != after and is_number(before) and is_number(after):
                change = round((after - before) / before * 100, 1) if before and after is not None else None
                row = {**dict(zip(names, key, strict=False)), "figure": figure, "before": before, "after": after}
                changed.append({**row, "change": change})
    changed.sort(key=lambda row: (-size(row), str(row)))
    return changed[:LISTED]


def is_number(figure: object) -> bool:
    return figure is None or isinstance(figure, int | float)


def size(row: Values) -> float:
    """Return how large a change is, the same for a factor and its inverse; from or to 0 as if that were 1."""
    return abs(math.log1p(max(row["after"] or 0, 0)) - math.log1p(max(row["before"] or 0, 0)))
