"""Fields of events for all values that operators configure and clients send."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.hypothesis_settings import examples
from warren.broker.amqp.field_table import Table, check
from warren.broker.core.telemetry.event_fields import (
    DEEPEST,
    HEADERS_LIMIT_BYTES,
    cut_short,
    encode_text,
    field_value,
    fit_to_limit,
    format_arguments,
)

TEXTS = st.text(st.characters(exclude_categories=())) | st.just("k" * 300) | st.just("\ud800")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(1 << 80), 1 << 80) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@examples(200)
@given(JSON)
def test_every_value_of_json_fits_a_table(value: object) -> None:
    check(Table.of({"value": field_value(value)}).raw)


def test_values_that_no_table_can_hold_become_text() -> None:
    assert field_value(1 << 63) == ("S", b"9223372036854775808")
    assert field_value("\ud800x") == ("S", b"?x")
    assert field_value({"k" * 300: 1}) == ("F", Table.of({"k" * 255: ("l", 1)}))
    deep: object = 1
    for _ in range(DEEPEST + 2):
        deep = [deep]
    found = field_value(deep)
    for _ in range(DEEPEST):
        assert isinstance(found[1], list)
        (found,) = found[1]
    assert found == ("S", b"[[1]]")
    check(Table.of({"deep": field_value(deep)}).raw)


def test_text_that_is_not_utf8_is_unchanged() -> None:
    assert encode_text("\udcff") == b"\xff" and cut_short("\udcff" * 300) == "\udcff" * 255


def test_the_longest_fields_are_left_out_beyond_the_limit() -> None:
    fields = {
        "a": field_value("x" * 50_000),
        "b": field_value("x" * 90_000),
        "c": field_value(1),
        "d": field_value("x" * 40_000),
    }
    assert [key for key, _ in fit_to_limit(fields).items()] == ["a", "c", "d"]
    assert len(fit_to_limit(fields).raw) <= HEADERS_LIMIT_BYTES
    assert [key for key, _ in fit_to_limit(fields, 100).items()] == ["c"]
    del fields["b"]
    assert fit_to_limit(fields) == Table.of(fields)


def test_arguments_are_terms() -> None:
    arguments = Table.of({"x-max-length": 5, "a": "b"})
    assert format_arguments(arguments) == ['{<<"x-max-length">>,signedint,5}', '{<<"a">>,longstr,<<"b">>}']
