"""Names, values and tables as HTML. All text of a log is escaped here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

Values = dict[str, Any]
CUT = 48  # characters of a name that are shown; the title has all
CUT_WORDS = 160  # the same for a sentence
FILTERED = 6  # rows from which on a table has a filter
SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3600.0, 86400.0
# Characters that have no shape of their own, or change the direction of text around them.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
HEADINGS = {"vhost": "virtual host", "msg_seq": "message", "boot_id": "boot", "per_s": "per second", "p999": "p99.9"}
NUMBERS = (
    "msg_seq",
    "first_row",
    "last_row",
    "from_row",
    "to_row",
    "end_row",
    "previous_row",
    "version",
)  # not amounts
UNITS = (("_per_s", "/s"), ("_us", ""), ("_s", ""), ("_bytes", ""), ("_in_h", " in"))


def visible(text: str) -> str:
    """Return text with control characters and the like as `\\x00` or `\\u202e`."""
    return UNSEEN.sub(lambda match: repr_of(ord(match[0])), text)


def repr_of(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def escape(text: object) -> str:
    return html.escape(visible(str(text)))


def cut(text: str, length: int = CUT) -> str:
    """Return visible text of at most this length, with an ellipsis if something is missing."""
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def name(text: str, length: int = CUT) -> str:
    """Return a name as HTML, cut, with the whole in its title."""
    shown, whole = cut(text, length), visible(text)
    if shown == whole:
        return html.escape(shown)
    return f'<span title="{html.escape(whole)}">{html.escape(shown)}</span>'


def queue_name(row: Values) -> str:
    """Return the name of a queue with its node and virtual host, which come last, as a long text is cut."""
    return f"{row['queue']} at {scope_name(row)}"


def scope_name(row: Values) -> str:
    """Return the names of a node and a virtual host."""
    return " ".join(str(row[part]) for part in ("node", "vhost") if row.get(part) is not None)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration in the unit in which it has one to three digits."""
    size = abs(seconds)
    if size == 0:
        return "0 s"
    for unit, least in (("d", 2 * DAY), ("h", 2 * HOUR), ("min", 2 * MINUTE), ("s", SECOND)):
        if size >= least:
            return f"{short(seconds / {'d': DAY, 'h': HOUR, 'min': MINUTE, 's': SECOND}[unit])} {unit}"
    return f"{short(seconds * 1e3)} ms" if size >= 1e-3 else f"{short(seconds * 1e6)} µs"


def byte_size(number: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(number) >= size:
            return f"{short(number / size)} {unit}"
    return f"{short(number)} B"


def short(number: float) -> str:
    """Return a number with three significant digits, or as an integer if it has more before the point."""
    if number == 0 or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def heading(column: str) -> str:
    """Return the title of a column: its name in words, without the unit that the values have."""
    if column in HEADINGS:
        return HEADINGS[column]
    for ending, sign in UNITS:
        if column.endswith(ending) and len(column) > len(ending):
            column = column.removesuffix(ending)
            return f"{HEADINGS.get(column, column.replace('_', ' '))}{sign}"
    return column.replace("_", " ")


def value(column: str, held: object) -> str:
    """Return a value as text, in the unit that the name of its column ends with."""
    if held is None:
        return ""
    if isinstance(held, bool):
        return "yes" if held else "no"
    if isinstance(held, int | float):
        if column.endswith("_per_s") or column == "per_s":
            return short(held)
        if column.endswith(("_us", "_us_p99")):
            return duration(held / 1e6)
        if column.endswith("_in_h"):
            return duration(held * HOUR)
        if column.endswith("_s"):
            return duration(held)
        if column == "bytes" or column.endswith("_bytes"):
            return byte_size(held)
        if column.endswith("share") or column in ("utilisation", "peak_cpu"):
            return f"{held * 100:.3g} %"
        if column in NUMBERS:
            return str(held)
        return f"{held:,}" if isinstance(held, int) else short(held)
    if held == "" and column == "exchange":
        return "(default)"
    if isinstance(held, str) and TIME.fullmatch(held):
        return f"{held[:10]} {held[11:23]}"
    if isinstance(held, dict):
        return ", ".join(f"{key}: {value(column, each)}" for key, each in held.items())
    if isinstance(held, list | tuple):
        return ", ".join(value(column, each) for each in held)
    return str(held)


def table(
    rows: Sequence[Values], label: str, limit: int, total: int | None = None, leave_out: Iterable[str] = ()
) -> str:
    """Return the first `limit` rows as HTML, without columns that have no value; `total` is the number of all rows."""
    shown = rows[:limit]
    columns = [
        column
        for column in dict.fromkeys(column for row in shown for column in row)
        if column not in leave_out and any(row.get(column) is not None for row in shown)
    ]
    numeric = {column for column in columns if is_numeric(row.get(column) for row in shown)}
    head = "".join(
        f'<th scope="col"{number_class(column in numeric)} aria-sort="none">'
        f'<button type="button">{html.escape(heading(column))}</button></th>'
        for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(cell(column, row.get(column), column in numeric) for column in columns) + "</tr>"
        for row in shown
    )
    more = max(total or 0, len(rows)) - len(shown)
    note = f'<p class="note">and {more:,} more in the tables of the report</p>' if more > 0 else ""
    search = ""
    if len(shown) >= FILTERED:
        search = (
            f'<p class="filter"><label>Filter <input type="search" aria-label="Filter {escape(label)}"></label> '
            f"<output>{count(len(shown), 'row')}</output></p>"
        )
    return (
        f'<div class="table">{search}<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>{note}</div>"
    )


def is_numeric(values: Iterable[object]) -> bool:
    kinds = [isinstance(each, int | float) and not isinstance(each, bool) for each in values if each is not None]
    return all(kinds)


def number_class(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def cell(column: str, held: object, numeric: bool) -> str:
    text = value(column, held)
    if numeric:
        sort = "" if held is None else f' data-value="{held}"'
        return f'<td class="number"{sort}>{escape(text)}</td>'
    words = column in ("advice", "reason", "problem")
    return f"<td{' class=words' if words else ''}>{name(text, CUT_WORDS if words else CUT)}</td>"


def facts(values: Values) -> str:
    """Return single values with their names as HTML."""
    pairs = "".join(
        f"<div><dt>{html.escape(heading(key))}</dt><dd>{name(value(key, held)) or '-'}</dd></div>"
        for key, held in values.items()
    )
    return f'<dl class="facts">{pairs}</dl>'
