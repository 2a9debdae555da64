"""What a command may be answered, by a node at the control socket or over HTTP; it knows neither."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

# Exit statuses of sysexits.h, as RabbitMQ's tools use them.
USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TIMEOUT = 64, 65, 67, 69, 70, 75

Answer = object
"""None for nothing to say, Rows, a Report, a Text, or a value of JSON."""


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


class Text:
    """A value of JSON whose text is made while it is asked for, in short pieces of which some are empty."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces


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
