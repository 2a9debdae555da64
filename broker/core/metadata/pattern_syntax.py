"""The syntax of operators' regular expressions: translation from PCRE to `regex`, and a limit of the compiled size.

The library unrolls repetitions when it compiles: `a+` is two copies of `a` and `a{9}` is ten. Nested ones multiply, so
a short pattern could take minutes and gigabytes. `translate` counts the elements before anything is compiled. It writes
the pattern anew and escapes each character that is not an operator, so that the library reads the structure that was
counted. It refuses syntax that changes how the rest is read (comments, flags other than i, m and s), and syntax without
a bound that names of queues do not need (recursion, conditions, verbs).
"""

import re
from collections.abc import Callable, Mapping

from ...amqp.errors import Invalid

REPETITIONS = 65_535  # PCRE's largest count
DEEPEST = 50  # nested groups: the library recurses into them
GROUP, SET, REPETITION = 8, 4, 2  # the elements that each adds to those within it; a character is one element
WRITTEN_OUT = {"\\X": 16, "\\R": 16, "\\p": 4, "\\P": 4}  # escapes that are more than one element

_ESCAPE = r"\\(?:[pP]\{\^?[A-Za-z0-9_]+(?:[:=][A-Za-z0-9_]+)?\}|x\{[0-9A-Fa-f]{1,6}\}|.)"
_POSIX_CLASS = r"\[:\^?[a-z]+:\]"
_MEMBER = re.compile(f"{_POSIX_CLASS}|{_ESCAPE}|.", re.DOTALL)
_TOKEN = re.compile(
    rf"""
      (?P<quoted> \\Q.*?(?:\\E|\Z) )
    | (?P<reference> \\[gk](?:\{{\w+\}}|<\w+>|'\w+') )
    | (?P<escape> {_ESCAPE} )
    | (?P<set> \[\^?\]?(?: {_POSIX_CLASS} | \\. | [^\]\\] )*\] )
    | (?P<repeat> (?: [*+?] | \{{[0-9]+(?:,[0-9]*)?\}} )[+?]? )
    | (?P<named> \(\?P=\w+\) )
    | (?P<flags> \(\?[ims]*(?:-[ims]+)?\) )
    | (?P<open> \((?: \?(?: [=!>|] | <[=!] | P?<\w+> | [ims]*(?:-[ims]+)?: ) | (?![?*]) ) )
    | (?P<close> \) )
    | (?P<variable> \{{\w+\}} )
    | (?P<other> . )
    """,
    re.DOTALL | re.VERBOSE,
)
_OPERATORS = frozenset("^$.|")


def translate(text: str, variables: Mapping[str, str], largest: int) -> str:
    """Return the pattern in the syntax of `regex`, `{name}` replaced by the variable's value. Raises Invalid.

    It may have at most `largest` elements once its repetitions are unrolled.
    """
    return Translation(text, variables, largest).text


class Translation:
    """The translation of one pattern. `_open` has the count of elements of each open group."""

    __slots__ = ("text", "_pattern", "_variables", "_largest", "_open", "_last")

    def __init__(self, pattern: str, variables: Mapping[str, str], largest: int) -> None:
        """Raises Invalid."""
        self._pattern = pattern
        self._variables = variables
        self._largest = largest
        self._open = [0]
        self._last = 0  # elements that a repetition would repeat
        parts = []
        for token in _TOKEN.finditer(pattern):
            assert token.lastgroup is not None
            parts.append(_TRANSLATORS[token.lastgroup](self, token))
            if self._open[-1] > largest:
                raise self._too_large()
        if sum(self._open) > largest:
            raise self._too_large()
        self.text = "".join(parts)

    def _too_large(self) -> Invalid:
        return Invalid(f"regular expression '{self._pattern[:100]}' is too large")

    def _invalid(self) -> Invalid:
        return Invalid(f"regular expression '{self._pattern[:100]}' is invalid")

    def _add(self, count: int) -> None:
        self._open[-1] += count
        self._last = count

    def _quoted(self, token: re.Match[str]) -> str:
        literal = token[0][2:].removesuffix("\\E")
        self._add(len(literal))
        return re.escape(literal)

    def _reference(self, token: re.Match[str]) -> str:
        self._add(1)
        return f"\\g<{token[0][3:-1]}>"

    def _escape(self, token: re.Match[str]) -> str:
        if token[0] in ("\\g", "\\k", "\\L"):
            raise self._invalid()
        self._add(WRITTEN_OUT.get(token[0][:2], 1))
        return "[^\\n]" if token[0] == "\\N" else self._character(token[0])

    def _character(self, escape: str) -> str:
        """Return the character for `\\x{41}`, any other escape unchanged."""
        if not escape.startswith("\\x{"):
            return escape
        code = int(escape[3:-1], 16)
        if code > 0x10FFFF:
            raise self._invalid()
        return re.escape(chr(code))

    def _set(self, token: re.Match[str]) -> str:
        negation = "^" if token[0].startswith("[^") else ""
        members = _MEMBER.findall(token[0][1 + len(negation) : -1])
        if not members:
            raise self._invalid()
        self._add(SET + len(members))
        return "[" + negation + "".join([self._member(member) for member in members]) + "]"

    def _member(self, member: str) -> str:
        if member in ("[", "]", "^"):
            return "\\" + member
        if member == "\\N":
            raise self._invalid()
        return self._character(member) if member.startswith("\\") else member

    def _repeat(self, token: re.Match[str]) -> str:
        if token[0].startswith("{"):
            counts = [int(count[:6]) for count in re.findall("[0-9]+", token[0])]
            if max(counts) > REPETITIONS:
                raise self._too_large()
            copies = counts[0] + 1
        else:
            copies = 2 if token[0].startswith("+") else 1
        self._open[-1] += REPETITION + self._last * (copies - 1)
        self._last = REPETITION + self._last * copies
        return token[0]

    def _as_is(self, token: re.Match[str]) -> str:
        self._add(1)
        return token[0]

    def _opened(self, token: re.Match[str]) -> str:
        if len(self._open) > DEEPEST:
            raise self._too_large()
        self._open.append(GROUP)
        return token[0]

    def _closed(self, token: re.Match[str]) -> str:
        if len(self._open) == 1:
            raise self._invalid()
        self._last = self._open.pop()
        self._open[-1] += self._last
        return token[0]

    def _variable(self, token: re.Match[str]) -> str:
        value = self._variables.get(token[0][1:-1])
        literal = token[0] if value is None else value
        self._add(len(literal))
        return re.escape(literal)

    def _other(self, token: re.Match[str]) -> str:
        if token[0] in "\\[(":  # an incomplete or unsupported escape, set or group
            raise self._invalid()
        self._add(1)
        return token[0] if token[0] in _OPERATORS else re.escape(token[0])


_TRANSLATORS: dict[str, Callable[[Translation, re.Match[str]], str]] = {
    "quoted": Translation._quoted,
    "reference": Translation._reference,
    "escape": Translation._escape,
    "set": Translation._set,
    "repeat": Translation._repeat,
    "named": Translation._as_is,
    "flags": Translation._as_is,
    "open": Translation._opened,
    "close": Translation._closed,
    "variable": Translation._variable,
    "other": Translation._other,
}
