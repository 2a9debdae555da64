"""Basic properties: lossless, changed one at a time, and safe against any bytes."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from warren.broker.amqp import properties
from warren.broker.amqp.errors import SyntaxFault
from warren.broker.amqp.field_table import MAX_ENTRIES, Table
from warren.broker.amqp.properties import Properties

short_strings = st.text(max_size=40)
octets = st.integers(0, 255)
tables = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=4).map(Table.of)
every = {
    "content_type": short_strings,
    "content_encoding": short_strings,
    "headers": tables,
    "delivery_mode": octets,
    "priority": octets,
    "correlation_id": short_strings,
    "reply_to": short_strings,
    "expiration": short_strings,
    "message_id": short_strings,
    "timestamp": st.integers(0, (1 << 64) - 1),
    "type": short_strings,
    "user_id": short_strings,
    "app_id": short_strings,
    "cluster_id": short_strings,
}
some = st.fixed_dictionaries({}, optional=every)


def fields(of: Properties) -> dict[str, object]:
    return {name: getattr(of, name) for name in every if getattr(of, name) is not None}


@given(some)
def test_what_is_encoded_decodes_to_the_same_properties(given_fields):
    raw = Properties(**given_fields).encode()
    properties.check(raw)
    assert fields(Properties.decode(raw)) == given_fields
    assert Properties.decode(raw).encode() == raw


@given(some)
def test_the_scans_agree_with_the_decoder(given_fields):
    raw = Properties(**given_fields).encode()
    assert properties.delivery_mode(raw) == given_fields.get("delivery_mode", 0)
    assert properties.priority(raw) == given_fields.get("priority")
    assert properties.timestamp(raw) == given_fields.get("timestamp")
    assert properties.headers(raw) == given_fields.get("headers")
    assert properties.text(raw, properties.EXPIRATION) == given_fields.get("expiration")
    assert properties.has(raw, properties.TYPE) == ("type" in given_fields)


@given(some, st.sampled_from(sorted(every)), st.data())
def test_a_replaced_property_leaves_the_others_alone(given_fields, name, data):
    raw = Properties(**given_fields).encode()
    flag = getattr(properties, name.upper())
    value = data.draw(every[name])
    assert properties.replace(raw, flag, value) == Properties(**{**given_fields, name: value}).encode()
    without = {key: kept for key, kept in given_fields.items() if key != name}
    assert properties.replace(raw, flag, None) == Properties(**without).encode()


names = st.sampled_from(["k", "x-k", "\x01k", "kk"])
field_values = st.sampled_from([("I", 7), ("S", b"\x01kI\x01k"), ("V", None), ("A", [("S", b"\x01k")])])


@given(some, st.lists(st.tuples(names, field_values), max_size=4))
def test_a_first_field_leaves_the_others_alone(given_fields, fields):
    """Names occur within values and other names too."""
    raw = Properties(**{**given_fields, "headers": Table(Table.encode_items(fields))}).encode()
    expected = Table(Table.encode_items([("k", ("l", 1)), *[field for field in fields if field[0] != "k"]]))
    changed = properties.with_first_field(raw, "k", ("l", 1))
    assert changed == properties.replace(raw, properties.HEADERS, expected)
    without = properties.replace(raw, properties.HEADERS, None)
    only = properties.replace(raw, properties.HEADERS, Table.of({"k": ("l", 1)}))
    assert properties.with_first_field(without, "k", ("l", 1)) == only


def test_pamqp_reads_what_is_written():
    own = Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=Table.of({"k": "v"}),
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="1000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="u",
        app_id="a",
    )
    raw = own.encode()
    read = commands.Basic.Properties()
    read.unmarshal(int.from_bytes(raw[:2], "big"), raw[2:])
    expected = fields(own) | {
        "headers": {"k": "v"},
        "message_type": "t",
        "timestamp": datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC),
    }
    del expected["type"]
    assert {key: value for key, value in read if value} == expected
    assert read.marshal() == raw


def test_headers_keep_their_bytes():
    headers = Table(b"\x01bt\x02\x01b\x75\x00\x01")  # a true of 2, a repeated name
    assert Properties.decode(Properties(headers=headers).encode()).headers == headers


def test_empty_headers_are_not_absent_headers():
    raw = Properties(headers=Table.EMPTY).encode()
    assert raw == b"\x20\x00\x00\x00\x00\x00"
    assert Properties.decode(raw).headers == Table.EMPTY
    assert Properties.decode(b"\x00\x00").headers is None


def test_text_that_is_not_utf8_comes_back_as_the_same_bytes():
    raw = b"\x80\x00\x02\xc3("
    assert Properties.decode(raw).content_type == "\udcc3("
    assert Properties.decode(raw).encode() == raw


def test_empty_words_of_flags_may_follow_the_first():
    raw = b"\x18\x01\x00\x01\x00\x00\x02\x09"
    properties.check(raw)
    own = Properties.decode(raw)
    assert (own.delivery_mode, own.priority) == (2, 9)
    assert (properties.delivery_mode(raw), properties.priority(raw)) == (2, 9)
    assert properties.replace(raw, properties.DELIVERY_MODE, None) == b"\x08\x01\x00\x01\x00\x00\x09"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80",
        b"\x80\x00",
        b"\x80\x00\x05abcd",
        b"\x20\x00\x00\x00\x00",
        b"\x20\x00\x00\x00\x00\x05\x01k",
        b"\x10\x00",
        b"\x00\x40\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x02\x00",
        b"\x00\x01",
        b"\x00\x01\x80\x00\x01x",
        b"\x00\x00\x00",
    ],
)
def test_malformed_properties_are_refused(raw):
    with pytest.raises(SyntaxFault):
        properties.check(raw)
    with pytest.raises(SyntaxFault):
        Properties.decode(raw)


def test_the_door_looks_into_the_headers():
    with pytest.raises(SyntaxFault, match="unknown type"):
        properties.check(b"\x20\x00\x00\x00\x00\x03\x01kU")
    with pytest.raises(SyntaxFault, match="entries"):
        properties.check(Properties(headers=Table.of({"k": [None] * MAX_ENTRIES})).encode())


@given(st.binary(max_size=60), st.sampled_from([b"", b"\xff\xfc", b"\x20\x00", b"\xb8\x00", b"\x98\x01"]))
def test_garbage_raises_only_syntax_fault_and_passes_the_door_only_if_it_decodes(garbage, flags):
    raw = flags + garbage
    try:
        properties.check(raw)
    except SyntaxFault:
        return
    own = Properties.decode(raw)
    assert properties.delivery_mode(raw) == (own.delivery_mode or 0)
    assert properties.priority(raw) == own.priority


@pytest.mark.parametrize("wrong", [{"content_type": "x" * 256}, {"priority": 256}, {"timestamp": -1}])
def test_values_that_do_not_fit_are_not_encoded(wrong):
    with pytest.raises(SyntaxFault):
        Properties(**wrong).encode()
