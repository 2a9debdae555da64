"""Regular expressions that operators write and that clients' names are searched with.

RabbitMQ's are PCRE. `regex` is nearer to it than the standard library is (possessive groups, POSIX classes), and it can
stop: a pattern such as `^(a|aa)+$` takes longer than anybody can wait on the wrong name, and clients choose the names.
A search that takes SEARCH_S of processor time is given up, and from then on searches with that pattern have AGAIN_S:
enough for ordinary names, and little for the next of that kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...amqp.errors import Invalid
from .pattern_syntax import most_elements, translate
from .validation import check_text

if TYPE_CHECKING:
    import regex

LONGEST_BYTES = 8_192  # of a pattern
LARGEST = 8_192  # elements of a pattern once its repetitions are unrolled: 0.1 s to compile, and 5 MiB
QUERY_LONGEST_BYTES, QUERY_LARGEST = 1024, 512  # the same for a pattern in a request: 5 ms, and any name of a queue
SEARCH_S = 0.02  # an ordinary search takes a microsecond or three
AGAIN_S = 0.0003
LONGEST_NAME = 255  # characters: with more, the library prepares long literals for seconds, and looks at no clock
QUERY_SEARCH_S = 0.005  # of one name with a pattern in a request
EVERYTHING = frozenset((".*", "^.*", ".*$", "^.*$"))
NOTHING = frozenset(("", "^$"))  # but the empty name


class Pattern:
    """A pattern to be searched for, not matched whole; the empty one is found in the empty name alone.

    Of the `variables`, `{name}` stands for the value as it is, whatever characters it has. With `ignore_case` it finds
    upper and lower case alike.
    """

    __slots__ = ("text", "exhausted", "_compiled")

    def __init__(
        self,
        text: str,
        variables: dict[str, str] | None = None,
        ignore_case: bool = False,
        longest_bytes: int = LONGEST_BYTES,
        largest: int = LARGEST,
        stored: bool = False,
    ) -> None:
        """Raises Invalid. One that was `stored` may have syntax that earlier versions took and this one refuses."""
        check_text("a regular expression", text, longest_bytes)
        self.text = text
        self.exhausted = False  # a search took too long
        self._compiled: regex.Pattern[str] | None = None
        if text not in EVERYTHING and text not in NOTHING:
            self._compiled = compiled(text, variables or {}, ignore_case, largest, stored)

    def search(self, name: str, within_s: float = SEARCH_S) -> bool | None:
        """Whether it is found in the name; None if that takes longer, or the name is longer than any of AMQP."""
        if self._compiled is None:
            return not name or self.text in EVERYTHING
        if len(name) > LONGEST_NAME:
            return None
        try:
            return self._compiled.search(name, timeout=AGAIN_S if self.exhausted else within_s) is not None
        except TimeoutError:
            self.exhausted = True
            return None

    def found(self, name: str, within_s: float = SEARCH_S) -> bool:
        """Whether it is found in the name; it is not if that takes longer."""
        return self.search(name, within_s) is True


def query_pattern(text: str, ignore_case: bool = False) -> Pattern:
    """A pattern that comes in a request, from anybody: a small one. Raises Invalid."""
    return Pattern(text, None, ignore_case, QUERY_LONGEST_BYTES, QUERY_LARGEST)


def compiled(
    text: str, variables: dict[str, str], ignore_case: bool, largest: int, stored: bool = False
) -> regex.Pattern[str]:
    """Raises Invalid for what is no pattern, or too large."""
    import regex  # here, as most brokers have no pattern but `.*`, and it takes 2 MiB

    try:
        translated = translate(text, variables, largest)
    except Invalid:
        if not stored or most_elements(text) > largest:
            raise
        translated = text
    try:
        # The library would keep the last 500 patterns of whoever asked.
        return regex.compile(translated, regex.IGNORECASE if ignore_case else 0, cache_pattern=False)
    except (regex.error, RecursionError, ValueError, OverflowError, TypeError):
        raise Invalid(f"regular expression '{text[:100]}' is invalid") from None
