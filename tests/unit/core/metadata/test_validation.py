"""Errors in the shape of values."""

import time

import pytest

from tests.support.speed import within
from warren.broker.amqp.errors import Invalid
from warren.broker.amqp.field_table import TERM_LENGTH
from warren.broker.core.metadata.validation import (
    as_integer,
    boolean,
    check_text,
    integer,
    number,
    one_of,
    shape_errors,
    term,
    text,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("x", '<<"x">>'), ('a"b', '<<"a\\"b">>'), ("é", "<<195,169>>"), (-1, "-1"), (1.5, "1.5"), (True, "true"),
     (None, "null"), ([1, "x"], '[1,<<"x">>]'), ({"a": {"b": []}}, '#{<<"a">> => #{<<"b">> => []}}'),
     ("\ud800", "<<237,160,128>>"), (10**30, "1000000000000000000000000000000")],
)  # fmt: skip
def test_values_are_shown_as_erlang_shows_them(value: object, shown: str) -> None:
    assert term(value) == shown


def test_an_integer_may_be_written_with_a_fraction_of_nothing() -> None:
    assert [as_integer(value) for value in (5, 5.0, 5.5, True, "5", None, 1 << 63, float("inf"))] == [5, 5] + [None] * 6


def test_each_rule_says_what_the_value_should_be() -> None:
    assert integer("k", "x") == 'k should be a number, actually was <<"x">>'
    assert integer("k", 1.5) == "k should be a number, actually was 1.5"
    assert [number("k", value) for value in (1.5, -1, 1e300, 1 << 64)] == [""] * 4
    assert number("k", "5") == 'k should be a number, actually was <<"5">>'
    assert number("k", None) == "k should be a number, actually was null"
    assert number("k", True) == "k should be a number, actually was true"
    assert text("k", 5) == "k should be binary, actually was 5"
    assert boolean("k", 1) == "k should be boolean, actually was 1" and boolean("k", False) == ""
    assert one_of("a", "b")("k", "c") == 'k should be one of [<<"a">>,<<"b">>], actually was <<"c">>'
    assert one_of("a")("k", ["a"]) == 'k should be one of [<<"a">>], actually was [<<"a">>]'


def test_all_errors_are_reported_and_nothing_else() -> None:
    rules = {"uri": text, "n": integer, "b": boolean}
    assert shape_errors("up", {"uri": "x", "n": 1}, rules, ("uri",)) == []
    assert shape_errors("up", {"n": "1", "b": True, "z": 1, "a": []}, rules, ("uri",)) == [
        'Key "uri" not found in up',
        'n should be a number, actually was <<"1">>',
        'Unrecognised terms [{<<"a">>,[]},{<<"z">>,1}] in up',
    ]
    assert shape_errors("up", [1], rules) == ["Unrecognised terms [1] in up"]


def test_a_text_that_cannot_be_stored_is_refused() -> None:
    check_text("it", "é!", 3)
    for value, reason in (
        ("\ud800", "it is not UTF-8"),
        ("\udcff", "it is not UTF-8"),
        ("", "it has 1 to 3 octets"),
        ("éé", "it has 1 to 3 octets"),
    ):
        with pytest.raises(Invalid, match=reason):
            check_text("it", value, 3, 1)


def test_of_a_very_long_value_the_first_part_is_shown() -> None:
    """Each is in an error, and so is made in a short time."""
    long = "é" * (1 << 19)
    begun_s = time.thread_time()
    for value in (long, [long] * 50, {str(key): [[long] * 50] * 50 for key in range(50)}):
        assert TERM_LENGTH < len(term(value)) < 10 * TERM_LENGTH
        assert len(shape_errors("p", {"other": value}, {})[0]) < 10 * TERM_LENGTH
    assert within(time.thread_time() - begun_s, 0.1)
    with pytest.raises(Invalid, match="has 0 to 255 octets"):
        check_text("it", long, 255)
