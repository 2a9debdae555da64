"""A parsed command line."""

from __future__ import annotations

import json

from .answers import CommandError, bad_argument
from .exit_status import UNAVAILABLE, USAGE

Options = dict[str, str | bool]


class Request:
    """A command with its arguments and options; the options are by long name, without dashes."""

    __slots__ = ("command", "arguments", "options", "node")

    def __init__(self, command: str, arguments: list[str], options: Options) -> None:
        self.command = command
        self.arguments = arguments
        self.options = options
        self.node = ""  # the node's own name, once it has answered

    @property
    def vhost_name(self) -> str:
        return self.text("vhost", "/")

    def text(self, option: str, default: str = "") -> str:
        value = self.options.get(option, default)
        return value if isinstance(value, str) else default

    def flag(self, option: str) -> bool:
        return bool(self.options.get(option))

    def integer(self, option: str, default: int, least: int = 0) -> int:
        """Return the integer of an option. Raises CommandError (64) if it is none or below `least`."""
        text = self.text(option, str(default))
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise CommandError(USAGE, f"Invalid options for this command:\n--{option} : {text}", argument=True)
        return value

    def document(self, text: str) -> object:
        """Return the value of a JSON argument. Raises CommandError (69)."""
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CommandError(UNAVAILABLE, f"JSON decoding error. Reason: {error}") from None
        return value

    def limits(self, text: str, what: str) -> dict[str, object]:
        """Return the object of a JSON argument. Raises CommandError (69)."""
        value = self.document(text)
        if not isinstance(value, dict):
            raise CommandError(UNAVAILABLE, f"Validation failed\n\n{what} should be a map\n")
        return value

    @property
    def is_operators(self) -> bool:
        """True for the commands of operator policies."""
        return "operator" in self.command


def integer(text: str, why: str = "Argument must be a positive integer") -> int:
    """Return the integer of an argument. Raises CommandError (65)."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise bad_argument(why)
    return value
