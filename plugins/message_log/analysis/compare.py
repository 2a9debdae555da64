"""The comparison of two reports: differences of totals, rates and latencies, with the largest changes first."""

import json
import math

from .facts import Values
from .report import LISTED

RATE = ("scope", "node", "vhost", "name", "flow")
LATENCY = ("node", "vhost", "queue", "stage")
RATES, LATENCIES = ("mean_per_s", "peak_per_s"), ("p50_us", "p99_us", "max_us")


class UnusableReport(Exception):
    """An error of one line, for a report that cannot be compared with."""


def parse(text: str) -> Values:
    """Return a report from the content of its report.json. Raises UnusableReport."""
    try:
        report = json.loads(text)
    except ValueError as error:
        raise UnusableReport(f"not JSON: {error}") from None
    if not isinstance(report, dict) or not isinstance(report.get("totals"), dict):
        raise UnusableReport("no report of an analysis: it has no totals")
    return report


def compare(old: Values, new: Values) -> Values:
    """Return the section "compared" of report.json: rows with the values before and after."""
    return {
        "with": {"folder": old.get("input", {}).get("folder"), "verdict": old.get("verdict")},
        "totals": differences([old["totals"]], [new["totals"]], (), tuple(new["totals"])),
        "rates": differences(per_second(old), per_second(new), RATE, RATES),
        "latencies": differences(old.get("latency", []), new.get("latency", []), LATENCY, LATENCIES),
    }


def per_second(report: Values) -> list[Values]:
    return [row for row in report.get("throughput", []) if row.get("grain") == "1s"]


def differences(old: list[Values], new: list[Values], names: tuple[str, ...], figures: tuple[str, ...]) -> list[Values]:
    """Return the figures that differ between rows with the same values of `names`, the larger changes first.

    `change` is in per cent; it is null if the figure was 0 or is in one report only.
    """
    changed = []
    sides = [{tuple(row.get(name) for name in names): row for row in rows} for rows in (old, new)]
    for key in {**sides[0], **sides[1]}:
        for figure in figures:
            before, after = (side.get(key, {}).get(figure) for side in sides)
            if before != after and is_number(before) and is_number(after):
                change = round((after - before) / before * 100, 1) if before and after is not None else None
                row = {**dict(zip(names, key, strict=True)), "figure": figure, "before": before, "after": after}
                changed.append({**row, "change": change})
    changed.sort(key=lambda row: (-size(row), str(row)))
    return changed[:LISTED]


def is_number(figure: object) -> bool:
    return figure is None or isinstance(figure, int | float)


def size(row: Values) -> float:
    """Return the size of a change, equal for a factor and its inverse; 0 counts as 1."""
    return abs(math.log1p(max(row["after"] or 0, 0)) - math.log1p(max(row["before"] or 0, 0)))
