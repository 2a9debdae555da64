"""The types of values of keys: read from text, and written as text again.

`read` raises ValueError with the fault, without the key. Numbers and booleans of TOML are text here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .config import Address

EVERY_INTERFACE = "::"
INFINITY = "infinity"
PORT_LIMIT = 65_535
INT_LIMIT = (1 << 31) - 1  # of an int of C, which options of sockets are
UNITS = {"": 1, "b": 1}  # of sizes: decimal with B, binary with iB or without, as in RabbitMQ
for _power, _letter in enumerate("kmgtp", 1):
    UNITS[_letter] = UNITS[_letter + "ib"] = 1024**_power
    UNITS[_letter + "b"] = 1000**_power
_SIZE = re.compile(r"([0-9]+)([a-z]*)", re.ASCII | re.IGNORECASE)


class Kind:
    """A type of values. `name` describes it in error texts and in the list of keys."""

    name = "text"

    def read(self, text: str) -> object:
        raise NotImplementedError

    def write(self, value: object) -> str:
        """Return the value as text, empty for None."""
        return "" if value is None else str(value)


class Text(Kind):
    """Any text, which may be empty only if `empty`."""

    def __init__(self, empty: bool = True) -> None:
        self.empty = empty

    def read(self, text: str) -> str:
        if not text and not self.empty:
            raise ValueError("is empty")
        return text

    def write(self, value: object) -> str:
        return quoted(str(value))


class RegularExpression(Text):
    """A regular expression."""

    name = "a regular expression"

    def read(self, text: str) -> str:
        import regex  # here: most starts need no regular expression of a configuration

        try:
            regex.compile(text)
        except regex.error as error:
            raise ValueError(f"'{text}' is not {self.name}: {error}") from None
        return text


class PathPrefix(Text):
    """The beginning of paths of URLs, with or without its first slash."""

    def read(self, text: str) -> str:
        return f"/{text}" if text and not text.startswith("/") else text


class FileName(Kind):
    """The name of a file, or `false`, which is read as an empty one."""

    def read(self, text: str) -> str:
        if not text:
            raise ValueError("is empty")
        return "" if text == "false" else text

    def write(self, value: object) -> str:
        return quoted(str(value)) if value else "false"


class Boolean(Kind):
    name = "true or false"

    def read(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError(f"'{text}' is neither true nor false")
        return text == "true"

    def write(self, value: object) -> str:
        return "true" if value else "false"


class Integer(Kind):
    """A number from `least` to `most`, or None for the word `none`, if that is not empty."""

    def __init__(self, least: int = 0, most: int | None = None, none: str = "") -> None:
        self.least = least
        self.most = most
        self.none = none
        self.name = f"a number from {least}" + ("" if most is None else f" to {most}")
        if none:
            self.name += f", or {none}"

    def read(self, text: str) -> int | None:
        if self.none and text == self.none:
            return None
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"'{text}' is not {self.name}")
        number = int(text)
        if number < self.least or (self.most is not None and number > self.most):
            raise ValueError(f"{text} is not {self.name}")
        return number

    def write(self, value: object) -> str:
        return self.none if value is None else str(value)


class Size(Integer):
    """A size in bytes, with or without a unit."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__(0, most)
        self.name = "a size such as 512, 64KB or 2GiB" + ("" if most is None else f", at most {most}")

    def read(self, text: str) -> int:
        match = _SIZE.fullmatch(text)
        unit = UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(f"'{text}' is not {self.name}")
        size = int(match[1]) * unit
        if self.most is not None and size > self.most:
            raise ValueError(f"{text} is not {self.name}")
        return size


class Fraction(Kind):
    name = "a number from 0"

    def read(self, text: str) -> float:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
            raise ValueError(f"'{text}' is not {self.name}")
        return float(text)


class Choice(Kind):
    """One of several words, each with its value."""

    def __init__(self, words: Mapping[str, object]) -> None:
        self.words = words
        self.name = "one of " + ", ".join(words)

    def read(self, text: str) -> object:
        if text not in self.words:
            raise ValueError(f"'{text}' is not {self.name}")
        return self.words[text]

    def write(self, value: object) -> str:
        return next((word for word, means in self.words.items() if means == value), "")


class Words(Choice):
    """One of several words, which is its own value."""

    def __init__(self, *words: str) -> None:
        super().__init__({word: word for word in words})


class Listener(Kind):
    """The address of a listener: PORT on every interface, or ADDRESS:PORT."""

    name = "PORT or ADDRESS:PORT"

    def read(self, text: str) -> Address:
        if text.isascii() and text.isdigit():
            return EVERY_INTERFACE, port_of(text)
        host, _, port = text.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not host:
            raise ValueError(f"'{text}' is not {self.name}")
        return host, port_of(port)

    def write(self, value: object) -> str:
        assert isinstance(value, tuple)
        host, port = value
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class OneListener(Listener):
    """The address of the only listener, or the word for none, whose value is empty."""

    name = "none, PORT or ADDRESS:PORT"
    NONE = "none"

    def read(self, text: str) -> Address | tuple[()]:  # type: ignore[override]
        return () if text == self.NONE else super().read(text)

    def write(self, value: object) -> str:
        return self.NONE if value == () else "" if value is None else super().write(value)


def port_of(text: str) -> int:
    """Parse a port. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and int(text) <= PORT_LIMIT):
        raise ValueError(f"'{text}' is not a port between 0 and {PORT_LIMIT}")
    return int(text)


def parse_address(text: str) -> Address:
    """Parse the `HOST:PORT` or `[IPv6]:PORT` of an option; port 0 is any. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError(f"'{text}' is not HOST:PORT")
    return host, port_of(port)


def quoted(text: str) -> str:
    """Return a text for rabbitmq.conf, in quotes if its ends or a # would be lost."""
    return f"'{text}'" if not text or text != text.strip() or "#" in text or text[0] == "'" else text
