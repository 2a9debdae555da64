"""The types of values of keys: read from text, and written as text again.

`read` raises ValueError with the fault, without the key. Numbers and booleans of TOML are text here too. Every type has
a bound, so that whatever reads the value can use it: a number fits 64 bits, a time is not longer than timers can be.
"""

import os
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
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:ms|[fwdhms]))+|[0-9]{1,15}", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]+)([a-z]*)")
SECOND_MS, DAY_MS = 1000, 86_400_000
UNITS_MS = {
    "": 1,
    "ms": 1,
    "s": SECOND_MS,
    "m": 60 * SECOND_MS,
    "h": 3600 * SECOND_MS,
    "d": DAY_MS,
    "w": 7 * DAY_MS,
    "f": 14 * DAY_MS,
}
_SIZE = re.compile(r"([0-9]+)([a-z]*)", re.ASCII | re.IGNORECASE)
LARGEST = (1 << 63) - 1  # of numbers without a limit of their own
DIGITS = len(str(LARGEST))
SHOWN = 100  # characters of a wrong value in its error text
HOST_LONGEST = 255  # of a name in the DNS
PATH_LONGEST_BYTES = 4095  # PATH_MAX of Linux, which counts the NUL at the end
NAME_LONGEST_BYTES = 255  # of a short string of AMQP, and of an element of a path (NAME_MAX)
TEXT_LONGEST_BYTES = 65_535
YEARS = 100  # uvloop cuts longer timers
PER_YEAR = {"ms": 31_557_600_000, "seconds": 31_557_600, "minutes": 525_960, "days": 366}
LARGEST_SHARE = 1_000_000.0


class Kind:
    """A type of values. `name` describes it in error texts and in the list of keys."""

    name = "text"

    def read(self, text: str) -> object:
        raise NotImplementedError

    def write(self, value: object) -> str:
        """Return the value as text, empty for None."""
        return "" if value is None else str(value)

    def refused(self, text: str) -> ValueError:
        """Return the error for a text that is no value of this type."""
        return ValueError(f"'{shown(text)}' is not {self.name}")


class Text(Kind):
    """A text in UTF-8, which may be empty only if `empty`."""

    def __init__(self, empty: bool = True, longest_bytes: int = TEXT_LONGEST_BYTES) -> None:
        self.empty = empty
        self.longest_bytes = longest_bytes

    def read(self, text: str) -> str:
        if not text and not self.empty:
            raise ValueError("is empty")
        try:
            length = len(text.encode())
        except UnicodeEncodeError:  # bytes of a variable or of the command line
            raise ValueError("is not UTF-8") from None
        if length > self.longest_bytes:
            raise ValueError(f"has more than {self.longest_bytes} bytes")
        return text

    def write(self, value: object) -> str:
        return quoted(str(value))


class Name(Text):
    """The name of an object, which is a short string of AMQP."""

    def __init__(self) -> None:
        super().__init__(empty=False, longest_bytes=NAME_LONGEST_BYTES)


class NodeName(Name):
    """The name of a node. It stays as it is given: names of the cluster and of links' queues may be made of it."""

    name = "NAME@HOST or NAME"

    def read(self, text: str) -> str:
        name, at, host = super().read(text).partition("@")
        if not name or (at and not host) or " " in text or not text.isprintable():
            raise self.refused(text)
        return text


class Header(Text):
    """The value of a header of HTTP."""

    def read(self, text: str) -> str:
        if not (text.isascii() and text.isprintable()):
            raise ValueError("has a character that a header of HTTP cannot have")
        return super().read(text)


class RegularExpression(Text):
    """A regular expression, with the syntax and the limits of those in policies and permissions."""

    name = "a regular expression"

    def read(self, text: str) -> str:
        # Imported here, as most starts need no regular expression of a configuration.
        from ..amqp.errors import Invalid
        from ..core.metadata.patterns import Pattern

        try:
            Pattern(text)
        except Invalid as error:
            raise ValueError(" ".join(error.text.split())) from None
        return text


class FilePath(Text):
    """The path of a file or folder, in any bytes that the system takes."""

    def read(self, text: str) -> str:
        if not text:
            raise ValueError("is empty")
        try:
            path = os.fsencode(text)
        except UnicodeEncodeError:
            raise ValueError("is not UTF-8") from None
        if len(path) > PATH_LONGEST_BYTES or max(map(len, path.split(b"/"))) > NAME_LONGEST_BYTES:
            raise ValueError(
                f"a path has at most {PATH_LONGEST_BYTES} bytes, and {NAME_LONGEST_BYTES} between two slashes"
            )
        return text


class Host(Text):
    """The name or address of a host."""

    name = "the name or address of a host"

    def read(self, text: str) -> str:
        if not is_host(text):
            raise self.refused(text)
        return text


class StoreUrl(Text):
    """The URL of a store on PostgreSQL. No part of it is in an error text, as it may have a password."""

    def read(self, text: str) -> str:
        if not super().read(text).startswith(("postgresql://", "postgres://")):
            raise ValueError("not of the form postgresql://USER@HOST1,HOST2/DATABASE")
        return text


class PathPrefix(Text):
    """The beginning of paths of URLs, with or without its first slash."""

    def read(self, text: str) -> str:
        text = super().read(text)
        return f"/{text}" if text and not text.startswith("/") else text


class FileName(FilePath):
    """The name of a file, or `false`, which is read as an empty one."""

    def read(self, text: str) -> str:
        return "" if text == "false" else super().read(text)

    def write(self, value: object) -> str:
        return quoted(str(value)) if value else "false"


class Boolean(Kind):
    name = "true or false"

    def read(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError(f"'{shown(text)}' is neither true nor false")
        return text == "true"

    def write(self, value: object) -> str:
        return "true" if value else "false"


class Integer(Kind):
    """A number from `least` to `most`, or None for the word `none`, if that is not empty."""

    def __init__(self, least: int = 0, most: int = LARGEST, none: str = "") -> None:
        self.least = least
        self.most = most
        self.none = none
        self.name = f"a number from {least} to {most}" + (f", or {none}" if none else "")

    def read(self, text: str) -> int | None:
        if self.none and text == self.none:
            return None
        number = number_of(text)
        if number is None or not self.least <= number <= self.most:
            raise self.refused(text)
        return number

    def write(self, value: object) -> str:
        return self.none if value is None else str(value)


class Duration(Integer):
    """A number of ms, seconds, minutes or days, up to YEARS."""

    def __init__(self, unit: str, least: int = 0, none: str = "") -> None:
        super().__init__(least, YEARS * PER_YEAR[unit], none)


class PatientDuration(Duration):
    """A number of ms, or `infinity`, which is a day: what waits for a client has to end."""

    def __init__(self, least: int = 0) -> None:
        super().__init__("ms", least)
        self.name = f"{self.name}, or {INFINITY}"

    def read(self, text: str) -> int | None:
        return DAY_MS if text == INFINITY else super().read(text)


class DurationWithUnits(Duration):
    """A duration such as 1h30m, or a number of ms. The units are f (two weeks), w, d, h, m, s and ms."""

    def __init__(self, least: int = 0) -> None:
        super().__init__("ms", least)
        self.name = "a duration such as 30s or 1h30m"

    def read(self, text: str) -> int:
        if not _DURATION.fullmatch(text):
            raise self.refused(text)
        total = sum(int(number) * UNITS_MS[unit] for number, unit in _DURATION_PART.findall(text))
        if not self.least <= total <= self.most:
            raise self.refused(text)
        return total


class Size(Integer):
    """A size in bytes, with or without a unit."""

    units = UNITS

    def __init__(self, most: int = LARGEST, least: int = 0) -> None:
        super().__init__(least, most)
        self.name = "a size such as 512, 64KB or 2GiB, " + (f"from {least} to {most}" if least else f"at most {most}")

    def read(self, text: str) -> int:
        match = _SIZE.fullmatch(text)
        unit = self.units.get(match[2].lower()) if match else None
        number = number_of(match[1]) if match else None
        if number is None or unit is None or not self.least <= number * unit <= self.most:
            raise self.refused(text)
        return number * unit


class BinarySize(Size):
    """A size in bytes whose KB, MB and GB are binary, as RabbitMQ has it where its schema says `bytesize`."""

    units = UNITS | {unit: UNITS[unit[0]] for unit in ("kb", "mb", "gb", "tb", "pb")}


class Fraction(Kind):
    """A share of something, which may be more than all of it."""

    name = f"a number from 0 to {LARGEST_SHARE:.0f}"

    def read(self, text: str) -> float:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII) or float(text) > LARGEST_SHARE:
            raise self.refused(text)
        return float(text)


class Choice(Kind):
    """One of several words, each with its value."""

    def __init__(self, words: Mapping[str, object]) -> None:
        self.words = words
        self.name = "one of " + ", ".join(words)

    def read(self, text: str) -> object:
        if text not in self.words:
            raise self.refused(text)
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
        if not is_host(host):
            raise self.refused(text)
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
    port = number_of(text)
    if port is None or port > PORT_LIMIT:
        raise ValueError(f"'{shown(text)}' is not a port between 0 and {PORT_LIMIT}")
    return port


def parse_address(text: str, default_host: str) -> Address:
    """Parse the `PORT`, `HOST:PORT` or `[IPv6]:PORT` of an option; port 0 is any. Raises ValueError."""
    if text.isascii() and text.isdigit():
        return default_host, port_of(text)
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not is_host(host) or (":" in host and not bracketed):
        raise ValueError(f"'{shown(text)}' is neither PORT nor HOST:PORT")
    return host, port_of(port)


def number_of(text: str) -> int | None:
    """Return the number that ASCII digits write; None for other text, and for more digits than a number has."""
    digits = text.lstrip("0") or text[:1]
    return int(digits) if text.isascii() and text.isdigit() and len(digits) <= DIGITS else None


def is_host(text: str) -> bool:
    """Return whether a text can be the name or address of a host."""
    if not 0 < len(text) <= HOST_LONGEST:
        return False
    try:
        text.encode("idna")  # as sockets do, of addresses too
    except UnicodeError:
        return False
    return True


def shown(text: str) -> str:
    """Return the beginning of a text as one line, for an error text."""
    beginning = "".join([character if character.isprintable() else "?" for character in text[:SHOWN]])
    return beginning if len(text) <= SHOWN else beginning + "..."


def quoted(text: str) -> str:
    """Return a text for rabbitmq.conf, in quotes if its ends or a # would be lost."""
    return f"'{text}'" if not text or text != text.strip() or "#" in text or text[0] == "'" else text
