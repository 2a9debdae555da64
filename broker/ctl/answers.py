"""The answers of commands: lists, reports, lines, and refusals with exit statuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

# Exit statuses of sysexits.h, as RabbitMQ's tools use them.
USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TIMEOUT = 64, 65, 67, 69, 70, 75

Answer = object
"""None for nothing to print, Rows, a Report, Lines, or a value of JSON."""


class Refused(Exception):
    """What ends `warrenctl` with a status other than 0; the text is what it prints.

    `bare` is without the word Error in front. `argument`: it is the command line that is wrong, so its usage follows.
    """

    def __init__(self, status: int, text: str, bare: bool = False, argument: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.bare = bare
        self.argument = argument


class Rows:
    """A list: its columns, and rows that are made as they are written."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
        self.columns = columns
        self.rows = rows


class Report:
    """Something that is told as text, and as a value where a machine reads it."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: object) -> None:
        self.text = text
        self.value = value


class Lines:
    """Lines that are printed as they come."""

    __slots__ = ("lines",)

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines


def json_text(value: object) -> str:
    """As it stands in a list."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def bad_argument(why: str = "") -> Refused:
    """An argument that makes no sense (65)."""
    return Refused(DATA, f"Bad argument: {why}" if why else "Bad argument.", argument=True)


def no_vhost(name: str) -> Refused:
    return Refused(DATA, f"Virtual host '{name}' does not exist", bare=True)


def unknown_vhost(name: str) -> Refused:
    """Told of permissions otherwise than of anything else, by RabbitMQ."""
    return Refused(UNAVAILABLE, f"Virtual host {name} does not exist")


def unknown_user(name: str) -> Refused:
    """Told of permissions otherwise than of anything else, by RabbitMQ."""
    return Refused(NO_USER, f"User {name} does not exist")


def no_user(name: str) -> Refused:
    return Refused(NO_USER, f'User "{name}" does not exist')
