"""Charts over time: their figures as JSON, which page.js draws by uPlot, and their legends as HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from .markup import byte_size, duration, name, short

COLOURS = 11
UPLOT = Path(__file__).parents[3] / "management" / "ui" / "lib"
FORMATS: dict[str, Callable[[float], str]] = {
    "s": duration,
    "us": lambda microseconds: duration(microseconds / 1e6),
    "bytes": byte_size,
    "per_s": lambda rate: f"{short(rate)}/s",
    "count": short,
}


class Line(NamedTuple):
    """A line of a chart; null values are gaps."""

    label: str
    values: Sequence[float | None]


class Charts:
    """The charts of one page, on the time axis of the timeline."""

    def __init__(self, timeline: dict[str, Any]) -> None:
        start = datetime.fromisoformat(timeline["start"])
        self.figures: dict[str, Any] = {"start": start.timestamp(), "step": timeline["step_s"], "charts": {}}

    def add(self, title: str, unit: str, lines: Iterable[Line]) -> str:
        """Return a chart as HTML; `unit` is a key of FORMATS. Lines without any value are left out."""
        drawn = [line for line in lines if any(value is not None for value in line.values)]
        if not drawn:
            return ""
        number = f"c{len(self.figures['charts'])}"
        self.figures["charts"][number] = {"unit": unit, "lines": [list(line.values) for line in drawn]}
        legend = "".join(self._entry(place, line, unit) for place, line in enumerate(drawn))
        heading = html.escape(title)
        return (
            f'<figure class="chart" data-chart="{number}"><figcaption>{heading}</figcaption>'
            f'<div class="drawing" role="img" aria-label="{heading}"></div><ul class="legend">{legend}</ul></figure>'
        )

    def _entry(self, place: int, line: Line, unit: str) -> str:
        peak = "at most " + FORMATS[unit](max(value for value in line.values if value is not None))
        return (
            f'<li><button type="button" aria-pressed="true"><i class="key s{place % COLOURS}"></i> '
            f'{name(line.label)}</button> <b data-peak="{peak}">{peak}</b></li>'
        )

    def data(self) -> str:
        """Return the element with all figures."""
        text = json.dumps(self.figures, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        return f'<script type="application/json" id="figures">{text}</script>'


def library() -> tuple[str, str]:
    """Return the script and the styles of uPlot."""
    return (UPLOT / "uPlot.iife.min.js").read_text("utf-8"), (UPLOT / "uPlot.min.css").read_text("utf-8")
