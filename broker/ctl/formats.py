"""Formats of results: table, json, csv, pretty_table, erlang. Lists are written row by row."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable
from typing import TextIO

from ..standard_streams import printable

Row = list[object]
Rows = Iterable[Row]

MACHINE = ("json", "csv")  # without banners


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


def table(columns: list[str], rows: Rows, headings: bool, out: TextIO) -> None:
    """Write tab-separated rows; the headings come with the first row."""
    for row in rows:
        if headings:
            print("\t".join(columns), file=out)
            headings = False
        print("\t".join([cell(value) for value in row]), file=out)


def json_list(columns: list[str], rows: Rows, headings: bool, out: TextIO) -> None:
    print("[", file=out)
    comma = ""
    for row in rows:
        print(comma + compact(dict(zip(columns, row, strict=True))), file=out)
        comma = ","
    print("]", file=out)


def csv_list(columns: list[str], rows: Rows, headings: bool, out: TextIO) -> None:
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    if headings:
        writer.writerow(columns)
    for row in rows:
        writer.writerow([cell(value) for value in row])


def pretty_table(columns: list[str], rows: Rows, headings: bool, out: TextIO) -> None:
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
        print(
            "│" + "│".join([f" {text}".ljust(width) for text, width in zip(line, widths, strict=True)]) + "│", file=out
        )
    print("└" + "┴".join(bars) + "┘", file=out)


def erlang(columns: list[str], rows: Rows, headings: bool, out: TextIO) -> None:
    terms = [
        "[" + ",".join([f"{{{atom(name)},{term(value)}}}" for name, value in zip(columns, row, strict=True)]) + "]"
        for row in rows
    ]
    print("[" + ",".join(terms) + "]", file=out)


def atom(name: str) -> str:
    return name if PLAIN_ATOM.fullmatch(name) else f"'{name}'"


PLAIN_ATOM = re.compile(r"[a-z]\w*", re.ASCII)
ATOMS = ("status", "type")  # columns whose values are written as Erlang atoms


def maps(columns: list[str], rows: Rows, headings: bool, out: TextIO) -> None:
    """Write the rows as an Erlang list of maps."""
    terms = [
        "#{"
        + ",".join(
            [
                f"{atom(name)} => {atom(str(value)) if name in ATOMS else term(value)}"
                for name, value in zip(columns, row, strict=True)
            ]
        )
        + "}"
        for row in rows
    ]
    print("[" + ",\n ".join(terms) + "]", file=out)


FORMATS: dict[str, Callable[[list[str], Rows, bool, TextIO], None]] = {
    "table": table,
    "json": json_list,
    "csv": csv_list,
    "pretty_table": pretty_table,
    "erlang": erlang,
    "maps": maps,
    "string": table,
}


def text_of(value: object) -> str:
    """Return the text of a result that is not a list of records."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join([compact(part) for part in value])
    return compact(value)


def json_of(value: object) -> str:
    return compact({"message": value} if isinstance(value, str) else value)
