"""Operators' regular expressions: searched as by PCRE, within limits."""

import threading

import pytest
import regex

from warren.broker.amqp.errors import Invalid
from warren.broker.core.metadata.pattern_syntax import DEEPEST, translate
from warren.broker.core.metadata.patterns import (
    LARGEST,
    LONGEST_BYTES,
    QUERY_LARGEST,
    QUERY_SEARCH_S,
    Pattern,
    query_pattern,
)


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
        ("^[]a]$", ["]", "a"], ["[", "b"]),
        ("^[^]a]$", ["b", "["], ["]", "a"]),
        ("^[[{(]$", ["[", "{", "("], [":", "]"]),
        ("^[a^-]$", ["a", "^", "-"], ["b"]),
        ("^[+-[]$", ["+", "5", "[", "A"], ["]", "a"]),
        ("^[\\]\\d]+$", ["]1"], ["a"]),
        ("^\\Qa.(b\\E+$", ["a.(b", "a.(bb"], ["aa(b"]),
        ("^\\x{41}\\x42$", ["AB"], ["ab"]),
        ("^\\p{Lu}\\pL$", ["Ab"], ["ab", "A1"]),
        ("^(?<n>a|b)\\k<n>\\1\\g{1}$", ["aaaa", "bbbb"], ["abab"]),
        ("^(?i)shop(?-i:A)$", ["SHOPA"], ["shopa"]),
        ("^(?:a|(?>b+))(?<=b)$", ["b", "bb"], ["a"]),
        ("^a#b c$", ["a#b c"], ["a", "ac", "a#bc"]),
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", ["01234567-89ab-cdef-0123-456789abcdef"], ["0123"]),
        ("^[A-Za-z0-9._:-]{1,255}$", ["shop.orders-1"], ["a b"]),
    ],
)
def test_a_pattern_is_searched_for_in_the_name(pattern: str, found: list[str], missing: list[str]) -> None:
    made = Pattern(pattern)
    assert [name for name in found + missing if made.matches(name)] == found


@pytest.mark.parametrize(
    "text", ["(", "[", "*", "(" * 5000, "(?P<a>x)(?P<a", "\\", "[]", "[^]", ")", "(?<!a", "\\k<a>"]
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="regular expression"):
        Pattern(text)


@pytest.mark.parametrize(
    "text",
    ["a" * (LONGEST_BYTES + 1), "((a{1000}){1000}){1000}", "(?:(?:(?:ab){200}){200}){200}",
     "(?:" * 20 + "a" + "b)+" * 20, "(?:" * 20 + "a" + "b)++" * 20, "(?:" * 20 + "a" + "b)+?" * 20,
     "(?:" * 14 + "a" + "b){1,9}" * 14, "(?:" * 14 + "a" + "b){2,}" * 14, "(?=" * 20 + "a" + "b)+" * 20,
     "(?:[" + "ab" * 500 + "]{50}){2}", "[)]{9000}", "\\({9000}", "(?:\\Q" + "(" * 100 + "\\E){100}",
     "(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1), "a{70000}", "a{" + "9" * 5000 + "}"],
)  # fmt: skip
def test_what_would_be_too_large_once_its_repetitions_are_unrolled_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="regular expression"):
        translate(text, {}, LARGEST) if len(text) <= LONGEST_BYTES else Pattern(text)


@pytest.mark.parametrize(
    "text",
    ["(?x)(?:(?:(?:ab){200} {200}) {200}) {200}", "(?ix)a {9}", "(?x:a {9})", "(?V1)[[a]--[b]]", "(?b)a", "(?e)a",
     "(?f)a", "(?a)a", "(?L)a", "(?u)a", "(?w)a", "(?r)a", "(?p)a", "(?-x)a", "(?:a(?#)){9}(?# {9})",
     "a(?#comment){9000}", "a(?R)?b", "(a(?1)?b)", "(a(?+1)?b)", "(?<n>a(?&n)?b)", "(?P<n>a(?P>n)?b)",
     "(?(DEFINE)(?<n>a))", "(a)(?(1)b|c)", "(*SKIP)a", "(*PRUNE)a", "\\L<words>", "\\N{BULLET", "\\ga"],
)  # fmt: skip
def test_syntax_that_changes_how_the_rest_is_read_or_has_no_bound_is_refused(text: str) -> None:
    if text == "\\N{BULLET":
        assert Pattern(text).matches("x{BULLET")  # any character but a newline, then the literal text
        return
    with pytest.raises(Invalid, match="regular expression"):
        Pattern(text)


@pytest.mark.parametrize(
    "text", ["(?:abc){e<=3}", "\\g{e<=3}", "\\p{e<=3}", "\\N{e<=3}", "[a]{i}", "(a){1i+1d<3}", "a{s}"]
)
def test_no_match_is_approximate(text: str) -> None:
    try:
        assert not Pattern(f"^(?:{text})$").matches("zzzz")
    except Invalid:
        pass


def test_variables_count_by_their_values() -> None:
    assert Pattern("^{u}{v}$" + "{v}" * 9, {"u": "a" * 255, "v": ""}).matches("a" * 255)
    assert translate("{u}" * 30, {"u": "a" * 255}, LARGEST) == "a" * 255 * 30
    with pytest.raises(Invalid, match="too large"):
        Pattern("{u}" * 40, {"u": "a" * 255})
    with pytest.raises(Invalid, match="too large"):
        Pattern("(?:{u}){40}", {"u": "a" * 255})


def test_a_pattern_of_a_request_is_a_small_one() -> None:
    assert query_pattern("^" + "shop\\." * 51 + "$").matches("shop." * 51)
    assert query_pattern("ORDERS", ignore_case=True).matches("shop.orders")
    for text in ("a" * (QUERY_LARGEST + 1), "(?:ab){200}", "(?:a|b)*" * 128, "\\p{L}" * 200):
        assert Pattern(text).text == text
        with pytest.raises(Invalid):
            query_pattern(text)


def test_the_library_caches_no_pattern() -> None:
    kept = len(regex._main._cache)  # type: ignore[attr-defined]
    for number in range(20):
        query_pattern(f"^only-once-{number}$").matches("x")
    assert len(regex._main._cache) == kept  # type: ignore[attr-defined]


def test_a_search_that_takes_too_long_is_given_up_and_the_next_ones_have_less_time() -> None:
    pattern = Pattern("^((a|aa|b?)+)+$")
    assert pattern.search("aaa") is True and pattern.search("!") is False and not pattern.exhausted
    assert pattern.search("a" * 250 + "!") is None and pattern.exhausted
    assert pattern.search("b" * 250 + "!") is None and not pattern.matches("b" * 250 + "!")
    assert pattern.matches("aaa")


def test_busy_threads_do_not_make_a_short_search_too_long() -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        pattern = query_pattern("^b$")
        assert [pattern.search("b", QUERY_SEARCH_S) for _ in range(10_000)].count(None) == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_no_name_of_amqp_is_longer_than_what_is_searched() -> None:
    pattern = Pattern("a" * 8000)
    assert pattern.search("a" * 255) is False and pattern.search("a" * 8000) is None and not pattern.exhausted
    assert Pattern(".*").search("a" * 8000) is True


def test_variables_are_literal_text() -> None:
    pattern = Pattern("^{username}\\.{vhost}\\.{client_id}$", {"username": "a.c{vhost}", "vhost": "(.*"})
    assert pattern.matches("a.c{vhost}.(.*.{client_id}")
    assert not pattern.matches("abc{vhost}.(.*.{client_id}") and not pattern.matches("a.c(.*.(.*.x")
