"""Conversion of argument tables to JSON and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hypothesis_settings import examples
from warren.broker.amqp.errors import Invalid
from warren.broker.amqp.field_table import MAX_DEPTH, MAX_ENTRIES, Table, check
from warren.broker.amqp.table_json import json_of_table, table_of_json

SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=60), inner, max_size=3),
    max_leaves=10,
)


@examples(100)
@given(st.dictionaries(st.text(max_size=60), VALUES, max_size=5))
def test_what_json_says_comes_back_the_same(value: dict[str, object]) -> None:
    table = table_of_json(value)
    check(table.raw)
    assert json_of_table(table) == value


def test_what_json_cannot_say_becomes_what_is_nearest_and_stays_that() -> None:
    table = Table.of(
        {
            "time": ("T", 1_600_000_000),
            "octets": ("x", b"a\xff"),
            "decimal": ("D", (2, 314)),
            "float": ("f", 0.5),
            "endless": ("d", float("inf")),
            "byte": ("b", -1),
        }
    )
    said = json_of_table(table)
    assert said == {
        "time": 1_600_000_000,
        "octets": "a\udcff",
        "decimal": 3.14,
        "float": 0.5,
        "endless": None,
        "byte": -1,
    }
    assert json_of_table(table_of_json(said)) == said


def test_of_a_repeated_field_the_first_counts() -> None:
    assert json_of_table(Table(Table.encode_items([("a", ("I", 1)), ("a", ("I", 2))]))) == {"a": 1}


def nested(depth: int) -> Any:
    return {} if depth == 0 else {"in": nested(depth - 1)}


@pytest.mark.parametrize(
    "value",
    [
        "text",
        ["x-expires"],
        {"a": 1 << 63},
        {"k" * 256: 1},
        {"a": "\ud800"},
        {"\ud800": 1},
        nested(MAX_DEPTH),
        nested(300),
        {str(number): 1 for number in range(MAX_ENTRIES + 1)},
    ],
    ids=["text", "list", "large", "long key", "half a pair", "half a pair as key", "deep", "deeper", "many"],
)
def test_what_fits_no_table_is_refused(value: object) -> None:
    with pytest.raises(Invalid):
        table_of_json(value)


def test_an_empty_list_is_no_arguments() -> None:
    assert table_of_json([]) == Table.EMPTY
