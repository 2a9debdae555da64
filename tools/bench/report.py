"""The figures as Markdown tables that are aligned for a terminal."""

import os
import platform
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from .churn import Figure
from .confirms import Latency
from .generator import Result
from .loads import Load
from .memory import Demand

COLUMNS = (
    ("load", 15), ("broker", 10), ("published/s", 11), ("received/s", 10), ("p50 ms", 8), ("p99 ms", 8),
    ("per CPU s", 9), ("RSS MiB", 7), ("ratio", 6), ("wanted", 6),
)  # fmt: skip
CONFIRM_COLUMNS = (("what", 20), ("broker", 10), ("a second", 9), ("p50 ms", 8), ("p99 ms", 8), ("p99.9 ms", 8))
RATE_COLUMNS = (("what", 30), ("received/s", 10), ("per CPU s", 9))
DEMAND_COLUMNS = (("what", 40), ("broker", 10), ("measured", 14), ("wanted", 12))


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def header(columns: Sequence[tuple[str, int]]) -> str:
    return f"{row(columns, [name for name, _ in columns])}\n|{'|'.join('-' * (width + 2) for _, width in columns)}|"


def row(columns: Sequence[tuple[str, int]], cells: Sequence[str]) -> str:
    texts = [
        f"{cell:{'<' if number < 2 else '>'}{width}}"
        for number, (cell, (_, width)) in enumerate(zip(cells, columns, strict=True))
    ]
    return f"| {' | '.join(texts)} |"


def median(results: Sequence[Result]) -> Result:
    """Return the median of each figure over the rounds."""
    figures: dict[str, Any] = {}
    for field in fields(Result):
        runs = [getattr(result, field.name) for result in results]
        figures[field.name] = None if None in runs else statistics.median(runs)
    return Result(**figures)


def ratio(load: Load, ours: Result, theirs: Result) -> float | None:
    """Return the ratio of ours to theirs of the compared figure."""
    mine, others = getattr(ours, load.figure), getattr(theirs, load.figure)
    return mine / others if mine is not None and others else None


def load_rows(load: Load, results: Mapping[str, Result | None], ours: Collection[str] = ()) -> list[str]:
    """Return a row for each broker, with the first broker's figure divided by its own; `ours` have no limit."""
    rows = []
    first = next(iter(results.values()))
    for number, (name, result) in enumerate(results.items()):
        title = "" if number else load.title
        if result is None:
            rows.append(row(COLUMNS, [title, name, "failed", *[""] * (len(COLUMNS) - 3)]))
            continue
        held = ratio(load, first, result) if number and first else None
        wanted = f"{'<=' if load.lower_is_better else '>='} {load.wanted}" if number and name not in ours else ""
        cells = (
            f"{result.published_per_s:,.0f}", f"{result.received_per_s:,.0f}" if load.consumers else "",
            _text(result.p50_ms, ".2f"), _text(result.p99_ms, ".2f"), _text(result.per_cpu_s, ",.0f"),
            _text(result.rss_bytes and result.rss_bytes / 2**20, ",.0f"), _text(held, ".2f"), wanted,
        )  # fmt: skip
        rows.append(row(COLUMNS, [title, name, *cells]))
    return rows


def figure_columns(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return columns for several brokers, each with a ratio, which is above 1 if the first broker is better."""
    first, *others = [(name, max(len(name), 10)) for name in names]
    return [("what", 48), first, *[column for name, width in others for column in ((name, width), ("ratio", 6))]]


def figure_cells(what: str, figures: Sequence[Figure | None]) -> list[str]:
    first = figures[0]
    unit = next((figure.unit for figure in figures if figure is not None), "")
    cells = [f"{what} ({unit})"]
    for number, figure in enumerate(figures):
        cells.append(_text(figure and figure.value, ",.0f" if figure and figure.value >= 100 else ",.2f"))
        if number:
            cells.append(_text(figure_ratio(first, figure), ".2f"))
    return cells


def figure_ratio(ours: Figure | None, theirs: Figure | None) -> float | None:
    """Return how many times better our figure is."""
    if ours is None or theirs is None or not ours.value or not theirs.value:
        return None
    return theirs.value / ours.value if ours.lower_is_better else ours.value / theirs.value


def confirm_row(what: str, name: str, latencies: Sequence[Latency]) -> str:
    """Return a row with the medians of the rounds."""
    figures = [statistics.median(getattr(each, field.name) for each in latencies) for field in fields(Latency)]
    return row(CONFIRM_COLUMNS, [what, name, f"{figures[0]:,.0f}", *[f"{figure:.2f}" for figure in figures[1:]]])


def print_demands(demands: Iterable[tuple[str, Demand]]) -> None:
    """Print each figure with the name of its broker as soon as it is measured."""
    print(header(DEMAND_COLUMNS), flush=True)
    for name, demand in demands:
        cells = (demand.what, name, f"{demand.measured:,.2f} {demand.unit}", demand.wanted)
        print(row(DEMAND_COLUMNS, cells), flush=True)


def _text(figure: float | None, form: str) -> str:
    return "" if figure is None else format(figure, form)
