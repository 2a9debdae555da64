"""Regular expressions that operators write and clients' names are searched with (spec/core.md 20.1).

RabbitMQ's are PCRE. `regex` is nearer to it than the standard library is (possessive groups, recursion, POSIX
classes), and it can stop: a pattern such as `^(a|aa)+$` takes longer than anybody can wait on the wrong name, and
clients choose the names. A search that takes SEARCH_S of processor time is given up; a pattern to which this happened
finds nothing any more until it is set anew, since the next name would cost the same again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import Invalid
from .shape import check_text

if TYPE_CHECKING:
    import regex

LONGEST = 16_384  # octets of a pattern
LARGEST = 65_536  # elements of a pattern after its counted repetitions are written out, which the compiler does
SEARCH_S = 0.02  # an ordinary search takes a microsecond or three
EVERYTHING = frozenset((".*", "^.*", ".*$", "^.*$"))
NOTHING = frozenset(("", "^$"))  # but the empty name

_TOKEN = re.compile(r"\\.|\[\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|.", re.DOTALL)
# What has a brace as a part of it, one that repeats, a variable, and a brace that stands for itself.
_BRACE = re.compile(r"(\\(?:[pPxgNko]\{[^}]*\}|.))|(\{\d+(?:,\d*)?\})|\{(\w+)\}|(\{)", re.DOTALL)


class Pattern:
    """A pattern to be searched for, not matched whole; the empty one is found in the empty name alone.

    Of the `variables`, `{name}` stands for the value as it is, whatever characters it has. With `ignore_case` it finds
    upper and lower case alike.
    """

    __slots__ = ("text", "exhausted", "_compiled")

    def __init__(self, text: str, variables: dict[str, str] | None = None, ignore_case: bool = False) -> None:
        """Raises Invalid."""
        check_text("a regular expression", text, LONGEST)
        self.text = text
        self.exhausted = False  # a search took too long
        self._compiled: regex.Pattern[str] | None = None
        if text not in EVERYTHING and text not in NOTHING:
            self._compiled = compiled(text, variables or {}, ignore_case)

    def found(self, name: str, within_s: float = SEARCH_S) -> bool:
        """Whether it is found in the name; it is not if that takes longer."""
        if self._compiled is None:
            return not name or self.text in EVERYTHING
        if self.exhausted:
            return False
        try:
            return self._compiled.search(name, timeout=within_s) is not None
        except TimeoutError:
            self.exhausted = True
            return False


def compiled(text: str, variables: dict[str, str], ignore_case: bool) -> regex.Pattern[str]:
    """Raises Invalid for what is no pattern, or too large."""
    import regex  # here, as most brokers have no pattern but `.*`, and it takes 2 MiB

    if size(text) > LARGEST:
        raise Invalid(f"regular expression '{text[:100]}' is too large")
    try:
        return regex.compile(plain_braces(text, variables), regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, ValueError, OverflowError):
        raise Invalid(f"regular expression '{text[:100]}' is invalid") from None


def plain_braces(text: str, variables: dict[str, str]) -> str:
    """The pattern with variables replaced, and braces escaped that neither repeat nor name a thing.

    To PCRE these stand for themselves, to `regex` they may allow a match that is not exact: `a{e}` finds any name.
    """

    def replaced(found: re.Match[str]) -> str:
        if found[1] or found[2]:
            return found[0]
        if found[3] in variables:
            return re.escape(variables[found[3]])
        return "\\" + found[0]

    return _BRACE.sub(replaced, text)


def size(text: str) -> int:
    """About how many elements the pattern has once `a{3}` is written as `aaa`."""
    groups = [0]  # elements of each group that is open
    last = 0  # of these the ones that a repetition would repeat
    for token in _TOKEN.finditer(text):
        if token[1]:
            count = int((token[2] or token[1])[:9])
            groups[-1] += last * max(count - 1, 0)
            last *= max(count, 1)
        elif token[0] == "(":
            groups.append(1)
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        else:
            last = 1
            groups[-1] += 1
    return sum(groups)
