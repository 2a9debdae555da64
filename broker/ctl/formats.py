"""The answers of commands, and their formats: table, json, csv, pretty_table, erlang, terminal.

Lists are written row by row, except where the widths of all rows are needed first.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

from ..standard_streams import printable

Answer = object
"""The output of a command: Rows, a Report, Lines, a JSON value, or None to print nothing."""


class Rows(NamedTuple):
    """A list: column names, and rows that are made while they are written."""

    columns: list[str]
    rows: Iterable[Sequence[object]]


class Report(NamedTuple):
    """A result as text for people and as a value for programs."""

    text: str
    value: object


class Lines(NamedTuple):
    """Lines that are printed as they arrive."""

    lines: Iterator[str]


MACHINE = ("json", "csv")  # without banners
GAP = 2  # spaces between two columns on a terminal


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def cell(value: object) -> str:
    """Return the value as the text of a table cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "[" + ",".join([f'{{"{printable(str(key))}",{quoted(part)}}}' for key, part in value.items()]) + "]"
    if isinstance(value, list):
        return "[" + ", ".join([cell(part) for part in value]) + "]"
    return printable(str(value))


def quoted(value: object) -> str:
    """Return the value as it is written in a map inside a table cell, such as a field table of AMQP."""
    if isinstance(value, list):
        return "[" + ",".join([quoted(part) for part in value]) + "]"
    return f'"{printable(value)}"' if isinstance(value, str) else cell(value)


def term(value: object) -> str:
    """Return the value as an Erlang term."""
    if isinstance(value, dict):
        return "[" + ",".join([f"{{{term(str(key))},{term(part)}}}" for key, part in value.items()]) + "]"
    if isinstance(value, list):
        return "[" + ",".join([term(part) for part in value]) + "]"
    if value is None:
        return "undefined"
    if value == "":
        return "<<>>"
    if isinstance(value, str):
        return '<<"' + printable(value.replace("\\", "\\\\").replace('"', '\\"')) + '">>'
    return cell(value)


Row = list[object]


def table(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    """Write tab-separated rows; the headings come with the first row."""
    for row in rows:
        if headings:
            print("\t".join(columns), file=out)
            headings = False
        print("\t".join([cell(value) for value in row]), file=out)


def json_list(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    print("[", file=out)
    comma = ""
    for row in rows:
        print(comma + compact(dict(zip(columns, row, strict=True))), file=out)
        comma = ","
    print("]", file=out)


def csv_list(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    from csv import QUOTE_ALL, writer

    lines = writer(out, quoting=QUOTE_ALL, lineterminator="\n")
    if headings:
        lines.writerow(columns)
    for row in rows:
        lines.writerow([cell(value) for value in row])


def pretty_table(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    """Write a framed table; its widths need all rows first."""
    lines = [columns] if headings else []
    lines += [[cell(value) for value in row] for row in rows]
    if not lines:
        return
    widths = [max(len(line[index]) for line in lines) + 2 for index in range(len(columns))]
    bars = ["─" * width for width in widths]
    print("┌" + "┬".join(bars) + "┐", file=out)
    for number, line in enumerate(lines):
        if number:
            print("├" + "┼".join(bars) + "┤", file=out)
        print(f"│{'│'.join([f' {text}'.ljust(width) for text, width in zip(line, widths, strict=True)])}│", file=out)
    print("└" + "┴".join(bars) + "┘", file=out)


def terminal(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    """Write aligned columns, numbers to the right; each row as a record if they are wider than the terminal."""
    values = list(rows)
    lines = [[cell(value) for value in row] for row in values]
    if not lines:
        print("(none)", file=out)
        return
    if headings:
        lines.insert(0, columns)
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) > shutil.get_terminal_size().columns:
        records(columns, lines[headings:], out)
        return
    right = [all(is_number(value) for value in column) for column in zip(*values, strict=True)]
    for line in lines:
        padded = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, right, strict=True)
        ]
        print((" " * GAP).join(padded).rstrip(), file=out)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def records(columns: list[str], lines: list[list[str]], out: TextIO) -> None:
    """Write each row as lines of a name and a value, without empty values, and an empty line between two rows."""
    width = max(map(len, columns)) + GAP
    shown = [
        "\n".join([f"{name:<{width}}{text}" for name, text in zip(columns, line, strict=True) if text])
        for line in lines
    ]
    print("\n\n".join(shown), file=out)


PLAIN_ATOM = re.compile(r"[a-z]\w*", re.ASCII)
ATOMS = ("status", "type")  # columns whose values are written as Erlang atoms


def atom(name: str) -> str:
    return name if PLAIN_ATOM.fullmatch(name) else f"'{name}'"


def joined(columns: list[str], rows: Iterable[Row], pair: Callable[[str, object], str]) -> list[str]:
    """Return the pairs of each row, with commas between them."""
    return [",".join([pair(name, value) for name, value in zip(columns, row, strict=True)]) for row in rows]


def erlang(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    lists = joined(columns, rows, lambda name, value: f"{{{atom(name)},{term(value)}}}")
    print("[" + ",".join([f"[{text}]" for text in lists]) + "]", file=out)


def maps(columns: list[str], rows: Iterable[Row], headings: bool, out: TextIO) -> None:
    """Write the rows as an Erlang list of maps."""

    def pair(name: str, value: object) -> str:
        return f"{atom(name)} => {atom(str(value)) if name in ATOMS else term(value)}"

    print("[" + ",\n ".join([f"#{{{text}}}" for text in joined(columns, rows, pair)]) + "]", file=out)


FORMATS: dict[str, Callable[[list[str], Iterable[Row], bool, TextIO], None]] = {
    "table": table,
    "json": json_list,
    "csv": csv_list,
    "pretty_table": pretty_table,
    "erlang": erlang,
    "maps": maps,
    "string": table,
    "terminal": terminal,
}


def text_of(value: object) -> str:
    """Return the text of a result that is not a list of records."""
    if isinstance(value, str):
        return value
    return "\n".join([compact(part) for part in (value if isinstance(value, list) else [value])])


def json_of(value: object) -> str:
    return compact({"message": value} if isinstance(value, str) else value)
