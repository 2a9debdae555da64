"""Field tables: typed, lossless, and safe against any bytes."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode, encode

from tests.support.hypothesis_settings import examples
from warren.broker.amqp.errors import SyntaxFault
from warren.broker.amqp.field_table import (
    MAX_DEPTH,
    MAX_ENTRIES,
    Table,
    Value,
    check,
    same,
    term_of,
    text_of,
    type_name,
)

RANGES = {"b": (8, True), "B": (8, False), "s": (16, True), "u": (16, False), "I": (32, True), "i": (32, False),
          "l": (64, True), "L": (64, True), "T": (64, False)}  # fmt: skip


def integers_of(letter: str) -> st.SearchStrategy[Value]:
    bits, signed = RANGES[letter]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.tuples(st.just(letter), st.integers(low, high))


names = st.text(max_size=20)
scalars = st.one_of(
    *[integers_of(letter) for letter in RANGES],
    st.tuples(st.just("t"), st.booleans()),
    st.tuples(st.just("f"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("d"), st.floats(allow_nan=False)),
    st.tuples(st.just("D"), st.tuples(st.integers(0, 255), st.integers(0, (1 << 32) - 1))),
    st.tuples(st.sampled_from("Sx"), st.binary(max_size=20)),
    st.just(("V", None)),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.tuples(st.just("A"), st.lists(inner, max_size=4)),
        st.tuples(
            st.just("F"), st.lists(st.tuples(names, inner), max_size=4).map(lambda i: Table(Table.encode_items(i)))
        ),
    ),
    max_leaves=20,
)
items = st.lists(st.tuples(names, values), max_size=8)

plain_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.floats(width=32, allow_nan=False),  # pamqp writes f
        st.text(max_size=20),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=15,
)


def plain(value: Value) -> object:
    """Return the value that pamqp decodes."""
    letter, content = value
    if letter == "S":
        assert isinstance(content, bytes)
        return content.decode()
    if letter == "A":
        assert isinstance(content, list)
        return [plain(element) for element in content]
    if letter == "F":
        assert isinstance(content, Table)
        return {key: plain(element) for key, element in content.items()}
    return content


def nested(depth: int, letter: bytes = b"F") -> bytes:
    """Return a table with `depth` tables or arrays in all, the outermost included."""
    raw = b""
    for level in range(depth - 1):
        name = b"\x01a" if letter == b"F" or level == depth - 2 else b""
        raw = name + letter + struct.pack(">I", len(raw)) + raw
    return raw


class TestCodec:
    @examples(40)
    @given(items)
    def test_what_is_encoded_decodes_to_the_same_types_and_values(self, fields):
        raw = Table.encode_items(fields)
        check(raw)
        assert Table(raw).items() == fields

    @examples(40)
    @given(items)
    def test_decoded_fields_encode_to_the_same_bytes(self, fields):
        raw = Table.encode_items(fields)
        assert Table.encode_items(Table(raw).items()) == raw

    @examples(40)
    @given(st.dictionaries(st.text(max_size=20), plain_values, max_size=6))
    def test_tables_that_pamqp_wrote_are_read(self, fields):
        framed = encode.field_table(fields)
        table = Table(framed[4:])
        check(table.raw)
        assert {key: plain(value) for key, value in table.items()} == fields
        assert table.framed == framed

    @examples(40)
    @given(st.dictionaries(st.text(max_size=20), plain_values, max_size=6))
    def test_pamqp_reads_the_tables_that_are_made_of_python_values(self, fields):
        framed = Table.of(fields).framed
        consumed, read = decode.field_table(framed)
        assert (consumed, read) == (len(framed), fields)

    def test_python_values_become_the_types_that_rabbitmq_clients_use(self):
        table = Table.of({"t": True, "I": -5, "l": 1 << 31, "d": 1.5, "S": "x", "V": None, "A": [1], "F": {"k": "v"}})
        assert [(key, value[0]) for key, value in table.items()] == [(letter, letter) for letter in "tIldSVAF"]

    def test_a_typed_value_keeps_its_type(self):
        assert Table.of({"k": ("b", 5)}).raw == b"\x01kb\x05"

    @pytest.mark.parametrize(
        "field",
        [("k" * 256, 1), ("k", 1 << 63), ("k", ("B", 256)), ("k", ("S", 5)), ("k", object())],
    )
    def test_what_no_field_can_hold_is_refused(self, field):
        with pytest.raises(SyntaxFault):
            Table.of(dict([field]))

    def test_text_that_is_not_utf8_comes_back_as_the_same_bytes(self):
        table = Table(b"\x01\xffS\x00\x00\x00\x02\xc3(")
        assert table.text("\udcff") == "\udcc3("
        assert Table.of({"\udcff": "\udcc3("}) == table


class TestQuestions:
    def test_the_first_of_equal_names_answers(self):
        table = Table(Table.encode_items([("k", ("I", 1)), ("k", ("I", 2))]))
        assert table.get("k") == ("I", 1)
        assert len(table) == 2

    @pytest.mark.parametrize("reads", range(4))
    def test_a_field_is_found_among_others_that_contain_its_name(self, reads):
        """The others are decoded, as after some reads, or skipped."""
        fields = {"v": None, "s": "\x01kI\0\0\0\x05", "a": ["\x01k", b"\x01k"], "t": {"k": 6}, "\x01k": 7, "d": 1.5}
        table = Table.of({**fields, "k": 8})
        without = Table.of(fields)
        for name in ("v", "s", "d", "none")[:reads]:
            table.get(name)
            without.get(name)
        assert table.get("k") == ("I", 8) == table.get("k")
        assert table.encoded("k") == b"I\0\0\0\x08" and table.encoded("v") == b"V"
        assert table.text("s") == fields["s"] and table.get("\x01k") == ("I", 7)
        assert without.get("k") is None and without.encoded("k") == b"" and "k" not in without
        assert table.get("k" * 256) is None and Table.of({"v": "k" * 256}).encoded("k" * 256) == b""

    @pytest.mark.parametrize("raw", [b"\x09a\x01k", b"\x01a?\x01kV", b"\x01k", b"\x01kI\0"])
    def test_a_malformed_field_on_the_way_is_refused(self, raw):
        for read in (Table.get, Table.encoded):
            with pytest.raises(SyntaxFault):
                read(Table(raw), "k")

    def test_the_cost_of_one_field_is_less_than_that_of_all(self):
        fields = {f"{number:02x}": None for number in range(1_000)}
        one, several = Table.of({**fields, "k": 1}), Table.of({**fields, "k": [1, [2]]})
        assert one.read_cost < 5 and one.get("k") == ("I", 1)
        cost = one.read_cost
        assert 100 < cost < 200 and one.encoded("k") and one.read_cost == cost
        assert several.get("k") and several.read_cost > 4 + 100
        for _ in range(2):
            one.without(["k"])
            one.items()
            assert 2_000 < one.read_cost < 2_200

    def test_an_absent_name_gives_none(self):
        table = Table.of({"kk": 1})
        assert table.get("k") is None and table.get("other") is None
        assert "k" not in table and "kk" in table

    def test_a_value_of_another_type_is_not_converted(self):
        table = Table.of({"text": "5", "integer": 5, "flag": True, "double": 5.0})
        assert (table.text("text"), table.integer("integer"), table.flag("flag")) == ("5", 5, True)
        assert table.text("integer") is None and table.integer("text") is None
        assert table.integer("flag") is None and table.integer("double") is None and table.flag("integer") is None

    def test_the_empty_table_is_false(self):
        assert not Table.EMPTY and Table.EMPTY.framed == b"\x00\x00\x00\x00" and Table.of({"k": None})

    @examples(40)
    @given(items, st.lists(names, max_size=3))
    def test_without_leaves_the_other_fields_as_they_were(self, fields, keys):
        keys = [*keys, *[key for key, _ in fields[:2]]]
        expected = [field for field in fields if field[0] not in keys]
        assert Table(Table.encode_items(fields)).without(keys).raw == Table.encode_items(expected)

    def test_with_items_replaces_fields_of_the_same_name(self):
        table = Table.of({"a": 1, "b": 2}).with_items([("a", ("S", b"x"))])
        assert table.items() == [("b", ("I", 2)), ("a", ("S", b"x"))]

    @examples(40)
    @given(st.dictionaries(names, values, max_size=6).flatmap(lambda d: st.permutations(list(d.items()))), st.data())
    def test_identity_does_not_depend_on_the_order_of_fields(self, fields, data):
        shuffled = data.draw(st.permutations(fields))
        assert Table(Table.encode_items(fields)).key() == Table(Table.encode_items(shuffled)).key()

    def test_identity_tells_types_apart(self):
        assert Table.of({"k": ("b", 1)}).key() != Table.of({"k": ("I", 1)}).key()


class TestHostileBytes:
    @examples(40)
    @given(st.binary(max_size=60))
    def test_garbage_raises_only_syntax_fault(self, raw):
        for question in (
            check,
            lambda r: Table(r).items(),
            lambda r: Table(r).key(),
            lambda r: Table(r).without(["a"]),
        ):
            with contextlib.suppress(SyntaxFault):
                question(raw)

    @examples(40)
    @given(items, st.data())
    def test_a_damaged_table_raises_only_syntax_fault(self, fields, data):
        raw = bytearray(Table.encode_items(fields) + b"\x00V")
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        try:
            check(bytes(raw))
        except SyntaxFault:
            return
        for key, value in Table(bytes(raw)).items():
            text_of(value)
            Table.encode_items([(key, value)])

    @examples(40)
    @given(items.filter(lambda fields: len(fields) == 1))
    def test_a_truncated_table_is_refused_wherever_it_is_cut(self, fields):
        raw = Table.encode_items(fields)
        for end in range(1, len(raw)):
            with pytest.raises(SyntaxFault):
                check(raw[:end])

    def test_a_value_that_leaves_its_table_is_refused(self):
        inner = b"\x01aI\x00\x00"  # an integer with two bytes; two more follow the inner table
        with pytest.raises(SyntaxFault):
            check(b"\x01kF\x00\x00\x00\x05" + inner + b"\x01bV")

    def test_a_length_over_two_gigabytes_is_refused(self):
        with pytest.raises(SyntaxFault):
            check(b"\x01kS\xff\xff\xff\xff")

    def test_an_unknown_type_is_refused(self):
        with pytest.raises(SyntaxFault, match="unknown type 85"):
            check(b"\x01kU\x00\x00")

    @pytest.mark.parametrize("letter", [b"F", b"A"])
    def test_nesting_is_refused_beyond_the_limit(self, letter):
        check(nested(MAX_DEPTH, letter))
        with pytest.raises(SyntaxFault, match="nested"):
            check(nested(MAX_DEPTH + 1, letter))

    @pytest.mark.parametrize("letter", [b"F", b"A"])
    def test_thousands_of_levels_do_not_exhaust_the_stack(self, letter):
        raw = nested(5_000, letter)
        with pytest.raises(SyntaxFault):
            check(raw)
        with contextlib.suppress(SyntaxFault):
            for _, value in Table(raw).items():
                text_of(value)

    def test_entries_are_counted_over_all_levels(self):
        check(Table.of({"a": [None] * (MAX_ENTRIES - 1)}).raw)
        with pytest.raises(SyntaxFault, match="entries"):
            check(Table.of({"a": [None] * (MAX_ENTRIES - 1), "b": None}).raw)


class TestEquivalence:
    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (("b", 10), ("l", 10)),
            (("I", 10), ("L", 10)),
            (("I", 10), ("D", (1, 100))),
            (("D", (2, 100)), ("D", (0, 1))),
            (("f", 1.5), ("d", 1.5)),
            (("d", float("nan")), ("d", float("nan"))),
            (("S", b"x"), ("S", b"x")),
            (("A", [("I", 1)]), ("A", [("I", 1)])),
            (("F", Table.of({"k": 1})), ("F", Table.of({"k": 1}))),
            (None, None),
        ],
    )
    def test_equal_arguments_are_the_same(self, a, b):
        assert same(a, b) and same(b, a)

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (("I", 10), ("I", 11)),
            (("I", 10), ("d", 10.0)),
            (("I", 1), ("t", True)),
            (("I", 5), ("T", 5)),
            (("S", b"x"), ("x", b"x")),
            (("S", b"10"), ("I", 10)),
            (("A", [("I", 1)]), ("A", [("l", 1)])),
            (("V", None), None),
        ],
    )
    def test_arguments_of_other_types_or_values_are_not(self, a, b):
        assert not same(a, b) and not same(b, a)


class TestTexts:
    @pytest.mark.parametrize(
        ("value", "name", "text"),
        [
            (None, "none", "none"),
            (("I", 20), "signedint", "20"),
            (("i", 20), "unsignedint", "20"),
            (("S", b"classic"), "longstr", "classic"),
            (("t", True), "bool", "true"),
            (("d", 1.0), "double", "1.0"),
            (("d", 1e22), "double", "1.0e22"),
            (("D", (2, 314)), "decimal", "{2,314}"),
            (("T", 5), "timestamp", "5"),
            (("V", None), "void", "undefined"),
            (("A", [("I", 1), ("S", b"x")]), "array", '[{signedint,1},{longstr,<<"x">>}]'),
            (("F", Table.of({"k": False})), "table", '[{<<"k">>,bool,false}]'),
        ],
    )
    def test_types_and_values_are_named_as_rabbitmq_names_them(self, value, name, text):
        assert (type_name(value), text_of(value)) == (name, text)

    @pytest.mark.parametrize(("raw", "term"), [(b'a"b', '<<"a\\"b">>'), (b"\xff\x00", "<<255,0>>"), (b"", '<<"">>')])
    def test_strings_are_written_as_erlang_binaries_within_terms(self, raw, term):
        assert term_of(("S", raw)) == term
