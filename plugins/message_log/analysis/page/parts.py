"""The parts of a section as data: tables, charts, flows, notes. report.js draws them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Values = dict[str, Any]
Part = dict[str, Any]
Words = Sequence[str | dict[str, float]]
"""A sentence: a text, or a list of texts and of durations by `seconds`."""

CUT = 48  # characters of a name in a sentence
BOXES = 12  # in one column of a flow; the others are drawn as one
FLOW_HEIGHT = 300  # of all messages of the fullest column of a flow, in pixels
# Integers that identify something. They are sent as texts, as JavaScript rounds those above 2^53.
IDENTIFIERS = {
    *("msg_seq", "first_row", "last_row", "from_row", "to_row", "end_row", "previous_row"),
    "version",
}


class Line(NamedTuple):
    """A line of a chart; null values are gaps."""

    label: str
    values: Sequence[float | None]


class Edge(NamedTuple):
    """Messages from one box of a flow to another; a box is its column and its name."""

    source: tuple[int, str]
    target: tuple[int, str]
    messages: int


def seconds(number: float) -> dict[str, float]:
    """Return a duration for a sentence."""
    return {"s": number}


def cut(text: str, length: int = CUT) -> str:
    """Return a text of at most this length, with an ellipsis if something is missing."""
    return text if len(text) <= length else text[: length - 1] + "…"


def queue_name(row: Values) -> str:
    """Return the name of a queue with its node and virtual host, which come last, as a long text is cut."""
    return f"{row['queue']} at {scope_name(row)}"


def scope_name(row: Values) -> str:
    """Return the names of a node and a virtual host."""
    return " ".join(str(row[part]) for part in ("node", "vhost") if row.get(part) is not None)


def note(text: str) -> Part:
    return {"kind": "note", "text": text}


def heading(text: str) -> Part:
    return {"kind": "heading", "text": text}


def listing(lines: Iterable[object]) -> Part:
    return {"kind": "list", "lines": list(map(str, lines))}


def facts(values: Values) -> Part:
    """Return single values with their names."""
    return {"kind": "facts", "values": values}


def fold(title: str, parts: list[Part], is_open: bool) -> list[Part]:
    """Return parts that are shown if the reader unfolds them, or nothing without parts."""
    return [{"kind": "fold", "title": title, "open": is_open, "parts": parts}] if parts else []


def table(
    rows: Sequence[Values], title: str, limit: int, total: int | None = None, leave_out: Iterable[str] = ()
) -> list[Part]:
    """Return a table of the first `limit` rows, if there are any, without columns that have no value.

    `total` is the number of all rows.
    """
    shown = rows[:limit]
    columns = [
        column
        for column in dict.fromkeys(column for row in shown for column in row)
        if column not in leave_out and any(row.get(column) is not None for row in shown)
    ]
    cells = [[cell(column, row.get(column)) for column in columns] for row in shown]
    more = max(total or 0, len(rows)) - len(shown)
    shown_table = {"kind": "table", "title": title, "columns": columns, "rows": cells, "more": more}
    return [shown_table] if shown else []


def cell(column: str, value: Any) -> Any:
    return str(value) if column in IDENTIFIERS and value is not None else value


def chart(title: str, unit: str, lines: Iterable[Line]) -> list[Part]:
    """Return a chart over the time of the report; `unit` is "s", "us", "bytes", "per_s" or "count".

    Lines without any value are left out, and nothing is returned if all are.
    """
    drawn = [[line.label, list(line.values)] for line in lines if any(value is not None for value in line.values)]
    return [{"kind": "chart", "title": title, "unit": unit, "lines": drawn}] if drawn else []


def flow(edges: Sequence[Edge], titles: Sequence[str], height: int = FLOW_HEIGHT) -> Part:
    """Return a picture of edges between columns with these titles."""
    drawn = [[*edge.source, *edge.target, edge.messages] for edge in folded(edges)]
    return {"kind": "flow", "titles": list(titles), "height": height, "edges": drawn}


def folded(edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges with all but the first BOXES boxes of each column as one box."""
    sizes: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for edge in edges:
        for column, name in (edge.source, edge.target):
            sizes[column][name] += edge.messages
    others = {}
    for column, names in sizes.items():
        order = sorted(names, key=lambda name: (-names[name], name))
        rest = order[BOXES:] if len(order) > BOXES + 1 else []
        others.update({(column, name): (column, f"{len(rest):,} others") for name in rest})
    sums: dict[tuple[tuple[int, str], tuple[int, str]], int] = defaultdict(int)
    for edge in edges:
        sums[others.get(edge.source, edge.source), others.get(edge.target, edge.target)] += edge.messages
    return [Edge(source, target, messages) for (source, target), messages in sums.items() if messages > 0]
