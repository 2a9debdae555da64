"""The answers of commands: lists, reports, lines, and refusals with exit statuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from .exit_status import DATA, NO_USER, UNAVAILABLE

Answer = object
"""The output of a command: Rows, a Report, Lines, a JSON value, or None to print nothing."""


class CommandError(Exception):
    """An error that ends `warrenctl` with an exit status; `text` is printed.

    `bare`: without "Error:" before the text. `argument`: the command line is wrong, so the usage follows.
    """

    def __init__(self, status: int, text: str, bare: bool = False, argument: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.bare = bare
        self.argument = argument


class Rows:
    """A list: column names, and rows that are made while they are written."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
        self.columns = columns
        self.rows = rows


class Report:
    """A result as text for people and as a value for programs."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: object) -> None:
        self.text = text
        self.value = value


class Lines:
    """Lines that are printed as they arrive."""

    __slots__ = ("lines",)

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines


def json_text(value: object) -> str:
    """Return compact JSON, as list cells show it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def bad_argument(why: str = "") -> CommandError:
    """An invalid argument (65)."""
    return CommandError(DATA, f"Bad argument: {why}" if why else "Bad argument.", argument=True)


def no_vhost(name: str) -> CommandError:
    return CommandError(DATA, f"Virtual host '{name}' does not exist", bare=True)


def unknown_vhost(name: str) -> CommandError:
    """RabbitMQ's error of the permission commands, which differs from the other commands' (`no_vhost`)."""
    return CommandError(UNAVAILABLE, f"Virtual host {name} does not exist")


def unknown_user(name: str) -> CommandError:
    """RabbitMQ's error of the permission commands, which differs from the other commands' (`no_user`)."""
    return CommandError(NO_USER, f"User {name} does not exist")


def no_user(name: str) -> CommandError:
    return CommandError(NO_USER, f'User "{name}" does not exist')
