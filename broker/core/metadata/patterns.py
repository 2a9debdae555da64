"""Regular expressions that operators write, to search in names that clients choose.

RabbitMQ uses PCRE. `regex` is closer to it than the standard library (possessive groups, POSIX classes) and has a
timeout, which is needed: a pattern such as `^(a|aa)+$` takes longer than anybody can wait for certain names. A search
stops after SEARCH_S of processor time. From then on searches with that pattern get AGAIN_S: enough for ordinary names,
and little for more of those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ...amqp.errors import Invalid
from .pattern_syntax import translate
from .validation import check_text

if TYPE_CHECKING:
    import regex

COMPILED = 8  # patterns, or errors in them, that are kept after they were compiled
LONGEST_BYTES = 8_192  # of a pattern
LARGEST = 8_192  # elements of a pattern once its repetitions are unrolled: 0.1 s to compile, and 5 MiB
QUERY_LONGEST_BYTES, QUERY_LARGEST = 1024, 512  # for a pattern in a request: 5 ms to compile, any queue name fits
SEARCHES_S = 0.005  # all searches of one operation
SEARCH_S = 0.02  # an ordinary search takes a microsecond or three
AGAIN_S = 0.0003
LONGEST_NAME = 255  # characters: the library prepares longer literals for seconds, without regard to its timeout
QUERY_SEARCH_S = 0.005  # to search one name for a pattern in a request
EVERYTHING = frozenset((".*", "^.*", ".*$", "^.*$"))
NOTHING = frozenset(("", "^$"))  # except the empty name


# Compiled patterns and errors by text, variables and largest size, for as long as other objects have them.
_known: WeakValueDictionary[tuple[str, tuple[tuple[str, str], ...], int], Any] = WeakValueDictionary()
_last: deque[object] = deque(maxlen=COMPILED)


class SearchTime:
    """The processor time that all searches of one operation may take: when it is used up, further ones are not made."""

    __slots__ = ("left_s", "_limit_s", "_processor_s")

    def __init__(self, processor_s: Callable[[], float], limit_s: float = SEARCHES_S) -> None:
        """`processor_s` is that of the node's clock."""
        self.left_s = self._limit_s = limit_s
        self._processor_s = processor_s

    @property
    def cost(self) -> int:
        """The time so far, in microseconds."""
        return round((self._limit_s - self.left_s) * 1e6)

    def search(self, pattern: Pattern, name: str) -> bool | None:
        """Return whether the pattern is found in the name; None if the search or the name is too long."""
        if pattern.is_plain:
            return pattern.search(name)
        if self.left_s <= 0:
            return None
        begun_s = self._processor_s()
        found = pattern.search(name, self.left_s)
        self.left_s -= self._processor_s() - begun_s
        return found


class Pattern:
    """A regular expression that is searched for in names. An empty one is found in the empty name only.

    `{name}` in it is replaced by the value of that variable, as literal text.
    """

    __slots__ = ("text", "exhausted", "_compiled")

    def __init__(
        self,
        text: str,
        variables: dict[str, str] | None = None,
        ignore_case: bool = False,
        longest_bytes: int = LONGEST_BYTES,
        largest: int = LARGEST,
    ) -> None:
        """Compile the pattern. Raises Invalid."""
        check_text("a regular expression", text, longest_bytes)
        self.text = text
        self.exhausted = False  # a search took too long
        self._compiled: regex.Pattern[str] | None = None
        if text not in EVERYTHING and text not in NOTHING:
            if ignore_case:
                self._compiled = compile_pattern(text, variables or {}, ignore_case, largest)
            else:
                self._compiled = compile_again(text, variables or {}, largest)

    @property
    def is_plain(self) -> bool:
        """True if it needs no search."""
        return self._compiled is None

    def search(self, name: str, within_s: float = SEARCH_S) -> bool | None:
        """Return whether the pattern is found in the name; None if the search or the name is too long."""
        if self._compiled is None:
            return not name or self.text in EVERYTHING
        if len(name) > LONGEST_NAME:
            return None
        # The library counts the processor time of all threads, so that a short search can seem long while others are
        # busy. It is made with the lock of the interpreter held, and twice, each time with half of the limit.
        limit_s = (AGAIN_S if self.exhausted else within_s) / 2
        for _ in range(2):
            try:
                return self._compiled.search(name, timeout=limit_s, concurrent=False) is not None
            except TimeoutError:
                continue
        self.exhausted = self.exhausted or limit_s > AGAIN_S
        return None

    def matches(self, name: str, within_s: float = SEARCH_S) -> bool:
        """Return whether the pattern is found in the name in time."""
        return self.search(name, within_s) is True


def query_pattern(text: str, ignore_case: bool = False) -> Pattern:
    """Return a pattern from a request, with the limits for those. Raises Invalid."""
    return Pattern(text, None, ignore_case, QUERY_LONGEST_BYTES, QUERY_LARGEST)


def checked(text: object) -> object:
    """Return what keeps a text from being compiled again: its pattern, or the error in it."""
    if not isinstance(text, str):
        return None
    try:
        return Pattern(text)
    except Invalid:
        return _known.get((text, (), LARGEST))


def compile_again(text: str, variables: dict[str, str], largest: int) -> regex.Pattern[str]:
    """Return the compiled pattern, which was often compiled a moment ago to check it. Raises Invalid."""
    key = text, tuple(variables.items()), largest
    known = _known.get(key)
    if known is None:
        try:
            known = compile_pattern(text, variables, False, largest)
        except Invalid as error:
            known = error.with_traceback(None)
        _known[key] = known
        _last.append(known)
    if isinstance(known, Invalid):
        raise Invalid(known.text)
    return known


def compile_pattern(text: str, variables: dict[str, str], ignore_case: bool, largest: int) -> regex.Pattern[str]:
    """Return the compiled pattern. Raises Invalid if it is invalid or too large."""
    import regex  # imported here, because it takes 2 MiB and most brokers have no pattern but `.*`

    translated = translate(text, variables, largest)
    try:
        # The library would cache the last 500 patterns, those of requests too.
        return regex.compile(translated, regex.IGNORECASE if ignore_case else 0, cache_pattern=False)
    except (regex.error, RecursionError, ValueError, OverflowError, TypeError):
        raise Invalid(f"regular expression '{text[:100]}' is invalid") from None
