"""What is asked by one command line: the command, its arguments and options; it knows no node."""

from __future__ import annotations

import json

from .answers import UNAVAILABLE, USAGE, Refused, bad_argument

Options = dict[str, str | bool]


class Question:
    """`arguments` are the positional ones; `options` are by their long names, without dashes in front."""

    __slots__ = ("command", "arguments", "options")

    def __init__(self, command: str, arguments: list[str], options: Options) -> None:
        self.command = command
        self.arguments = arguments
        self.options = options

    def text(self, option: str, default: str = "") -> str:
        value = self.options.get(option, default)
        return value if isinstance(value, str) else default

    def flag(self, option: str) -> bool:
        return bool(self.options.get(option))

    def whole(self, option: str, default: int, least: int = 0) -> int:
        """Raises Refused (64) for what is no whole number, or below the least."""
        text = self.text(option, str(default))
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise Refused(USAGE, f"Invalid options for this command:\n--{option} : {text}", argument=True)
        return value

    def document(self, text: str) -> object:
        """The value of an argument that is JSON. Raises Refused (69)."""
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(UNAVAILABLE, f"JSON decoding error. Reason: {error}") from None
        return value

    def limits(self, text: str, what: str) -> dict[str, object]:
        """The value of an argument that is a JSON object. Raises Refused (69)."""
        value = self.document(text)
        if not isinstance(value, dict):
            raise Refused(UNAVAILABLE, f"Validation failed\n\n{what} should be a map\n")
        return value

    @property
    def is_operators(self) -> bool:
        """Whether operators' policies are meant, not users'."""
        return "operator" in self.command


def whole(text: str, why: str = "Argument must be a positive integer") -> int:
    """Raises Refused (65)."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise bad_argument(why)
    return value
