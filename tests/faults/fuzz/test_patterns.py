"""Regular expressions: every accepted one compiles and searches within its bounds of processor time and memory."""

import resource
import time

from hypothesis import given
from hypothesis import strategies as st

from tests.support.hypothesis_settings import examples
from warren.broker.amqp.errors import Invalid
from warren.broker.core.metadata.patterns import Pattern, query_pattern

BOUND_S = 1.0  # of processor time; the worst cases take a fifth of it
QUERY_BOUND_S = 0.2
BOUND_BYTES = 64 << 20  # the growth of the process that all examples together may cause
NAMES = ("", "a" * 255, "ab" * 127, "a" * 254 + "!", "0" * 255, "é" * 127)

atoms = st.sampled_from(
    (
        *("a", "b", ".", "^", "$", "\\b", "\\w", "\\d", "\\p{L}", "\\P{Lu}", "\\X", "\\R", "\\x{41}", "\\1", "\\k<n>"),
        *("[ab]", "[^a]", "[[:alpha:]]", "[]x]", "[a-z0-9_\\]{9}]", "[" + "ab" * 60 + "]", "\\Qa(b{9}\\E", "{name}"),
        *("a{", "{e<=3}", "}", "#", " ", "\n", "é", "|", "\\N", "\\p{e}", "\\(", "\\[", "\\\\", "abcdefgh" * 8),
    )
)
repetitions = st.sampled_from(
    (*("", "", "?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{9}", "{200}", "{1,9}", "{2,}", "{0,60000}"),)
)
openings = st.sampled_from(
    (
        *("(", "(?:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?|", "(?<n>", "(?P<m>", "(?i:", "(?s-i:", "(?x:"),
        *("(?#", "(?R", "(?(1)", "(?P>n", "(?V1:", "(?x) (", "(?i)(", "(*SKIP)("),
    )
)


def repeated(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.tuples(parts, repetitions).map("".join)
    return st.lists(one, min_size=1, max_size=4).map("".join)


def groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return repeated(st.tuples(openings, inner, st.just(")")).map("".join) | atoms)


@st.composite
def nests(draw: st.DrawFn) -> str:
    """A group in a group, each repeated."""
    depth = draw(st.integers(1, 40))
    text = draw(atoms)
    for _ in range(depth):
        text = draw(openings) + text + draw(atoms) + ")" + draw(repetitions)
    return text


patterns = st.one_of(
    st.recursive(repeated(atoms), groups, max_leaves=12),
    nests(),
    st.tuples(atoms, repetitions, st.integers(1, 3000)).map(lambda parts: (parts[0] + parts[1]) * parts[2]),
    st.text(st.sampled_from("ab(){}[]?*+|\\^$.,:=!<>#Pxi&R123-e \n"), max_size=40),
)


def spent_s(text: str, query: bool) -> float:
    begun_s = time.process_time()
    try:
        pattern = query_pattern(text, True) if query else Pattern(text, {"name": "a" * 255})
    except Invalid:
        pass
    else:
        for name in NAMES:
            pattern.matches(name)
    return time.process_time() - begun_s


@given(patterns)
@examples(200)
def test_a_pattern_is_refused_or_takes_a_bounded_time_and_memory(text: str) -> None:
    spent_s("a", False)  # load the library first
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert spent_s(text, True) < QUERY_BOUND_S
    assert spent_s(text, False) < BOUND_S
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < BOUND_BYTES
