"""Regular expressions of operators: searched for as PCRE would, within bounds."""

import pytest

from broker.core.patterns import LONGEST, Pattern, size
from broker.errors import Invalid


@pytest.mark.parametrize(
    "pattern, found, missing",
    [
        (".*", ["", "anything", "a\nb"], []),
        ("", [""], ["a", " "]),
        ("^$", [""], ["a"]),
        ("^a-", ["a-b"], ["b-a-", "A-b"]),
        ("a", ["bab"], ["b"]),
        ("^(amq\\.gen.*|amq\\.default)$", ["amq.default", "amq.gen-1"], ["amq.direct"]),
        ("^[[:alpha:]]+$", ["abc"], ["a1"]),
        ("^(?!amq\\.)", ["queue"], ["amq.topic"]),
        ("^a++b$", ["aab"], ["aa"]),
        ("^a{2}$", ["aa"], ["a", "a{2}"]),
        ("a{e}", ["a{e}"], ["a", "zzz"]),
        ("^x{,3}$", ["x{,3}"], ["xx"]),
    ],
)
def test_a_pattern_is_searched_for_in_the_name(pattern: str, found: list[str], missing: list[str]) -> None:
    made = Pattern(pattern)
    assert [name for name in found + missing if made.found(name)] == found


@pytest.mark.parametrize(
    "text", ["(", "[", "*", "a" * (LONGEST + 1), "(" * 5000, "((a{1000}){1000}){1000}", "(?P<a>x)(?P<a", "\\"]
)
def test_what_is_no_pattern_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="regular expression"):
        Pattern(text)


def test_the_size_is_that_with_repetitions_written_out() -> None:
    assert [size(text) for text in ("abc", "a{3}", "a{2,5}", "(ab){4}", "[)]{3}", "\\({2}", "((a{10}){10}){10}")] == [
        *(3, 3, 5, 12, 3, 2),
        size("((a{10}){10}){10}"),
    ]
    assert size("((a{10}){10}){10}") > 1000


def test_a_search_that_takes_too_long_is_given_up_and_the_pattern_finds_nothing_any_more() -> None:
    pattern = Pattern("^((a|aa|b?)+)+$")
    assert pattern.found("aaa") and not pattern.exhausted
    assert not pattern.found("a" * 250 + "!") and pattern.exhausted
    assert not pattern.found("aaa")


def test_variables_stand_for_their_values_and_nothing_more() -> None:
    pattern = Pattern("^{username}\\.{vhost}\\.{client_id}$", {"username": "a.c{vhost}", "vhost": "(.*"})
    assert pattern.found("a.c{vhost}.(.*.{client_id}")
    assert not pattern.found("abc{vhost}.(.*.{client_id}") and not pattern.found("a.c(.*.(.*.x")
