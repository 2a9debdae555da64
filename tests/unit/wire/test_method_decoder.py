"""Method payloads compared with pamqp, which lacks some checks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.base import Frame

from tests.support import codec
from tests.support.hypothesis_settings import examples
from warren.broker.amqp.errors import CommandInvalid, FrameError, SyntaxFault
from warren.broker.amqp.field_table import MAX_DEPTH, MAX_ENTRIES, Table
from warren.broker.wire import method_decoder

KINDS = [commands.INDEX_MAPPING[index] for index in sorted(commands.INDEX_MAPPING)]
BITS = {"bit": st.booleans(), "octet": st.integers(0, 255), "short": st.integers(0, 65_535)}
WIDE = {"long": st.integers(0, (1 << 32) - 1), "longlong": st.integers(0, (1 << 63) - 1)}  # pamqp reads them signed
NAMES = ("queue", "exchange", "source", "destination")  # of the classes queue and exchange: line ends are stripped
texts = st.text(st.characters(codec="utf-8"), max_size=40)
values = {**BITS, **WIDE, "shortstr": texts, "longstr": texts}
tables = st.dictionaries(st.text("abc", max_size=9), st.one_of(st.booleans(), st.integers(-9, 9), texts), max_size=3)


@st.composite
def payloads(draw: st.DrawFn) -> tuple[type[Frame], dict[str, object]]:
    kind = draw(st.sampled_from(KINDS))
    types = {name: kind.amqp_type(name) for name in kind.__slots__}
    return kind, {name: draw(tables if type_ == "table" else values[type_]) for name, type_ in types.items()}


@given(payloads())
@examples(200)
def test_every_method_is_read_as_it_was_written(sent: tuple[type[Frame], dict[str, object]]) -> None:
    kind, fields = sent
    method, table = method_decoder.decode(kind.index, codec.method_payload(kind, fields))
    assert type(method) is kind
    for name, value in fields.items():
        if kind.amqp_type(name) == "table":
            assert table == Table(codec.pairs(value))  # type: ignore[arg-type]
        elif name in NAMES and kind.index >> 16 in (40, 50) and not kind.name.endswith("Ok"):
            assert getattr(method, name) == "".join(re.split("[\r\n]", str(value)))
        else:
            assert getattr(method, name) == value


@pytest.mark.parametrize("index", [0, 0x003C00C8, 0x000A0000, 0xFFFFFFFF])
def test_an_unknown_method_is_a_command_invalid_that_names_it(index: int) -> None:
    with pytest.raises(CommandInvalid, match="unimplemented method") as caught:
        method_decoder.decode(index, index.to_bytes(4, "big"))
    assert (caught.value.class_id, caught.value.method_id) == (index >> 16, index & 0xFFFF)


def declare(queue: bytes = b"q", table: bytes = b"\0\0\0\0") -> bytes:
    return b"\0\x32\0\x0a\0\0" + bytes((len(queue),)) + queue + b"\0" + table


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\0\x32\0\x0a\0\0\xff", id="a name that is not there, which pamqp reads as empty"),
        pytest.param(declare(table=b"\0\0\0\x01"), id="a table that is not there"),
        pytest.param(declare(table=b"\xff\xff\xff\xff"), id="a table of 4 GiB"),
        pytest.param(declare(table=b"\0\0\0\x03\x01aU"), id="an unknown field type"),
        pytest.param(declare(table=b"\0\0\0\x08\x01aS\0\0\0\x09x"), id="a string longer than its table"),
        pytest.param(declare() + b"\0", id="bytes left over"),
        pytest.param(b"\0\x32\0\x0a\0", id="a cut number"),
    ],
)
def test_what_pamqp_cannot_tell_from_a_whole_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(SyntaxFault) as caught:
        method_decoder.decode(commands.Queue.Declare.index, payload)
    assert (caught.value.class_id, caught.value.method_id) == (50, 10)


def test_a_name_that_is_not_utf_8_is_a_frame_error() -> None:
    with pytest.raises(FrameError, match="Malformed UTF-8 in shortstr"):
        method_decoder.decode(commands.Queue.Declare.index, declare(b"\xff\xfe"))


def nested(depth: int) -> bytes:
    raw = b""
    for _ in range(depth - 1):
        raw = b"\x01aF" + codec.long_string(raw)
    return codec.long_string(raw)


def test_tables_are_as_deep_and_as_wide_as_allowed_and_no_more() -> None:
    wide = [codec.long_string(b"\x01aV" * count) for count in (MAX_ENTRIES, MAX_ENTRIES + 1)]
    for good, bad in ((nested(MAX_DEPTH), nested(MAX_DEPTH + 1)), wide):
        method_decoder.decode(commands.Queue.Declare.index, declare(table=good))
        with pytest.raises(SyntaxFault):
            method_decoder.decode(commands.Queue.Declare.index, declare(table=bad))
    with pytest.raises(SyntaxFault):
        method_decoder.decode(commands.Queue.Declare.index, declare(table=nested(20_000)))


def test_the_table_keeps_its_bytes() -> None:
    raw = b"\x01bs\xff\xfe\x01aL" + b"\xff" * 8 + b"\x01bV"  # not sorted, a key twice, widths that pamqp forgets
    assert method_decoder.decode(commands.Queue.Declare.index, declare(table=codec.long_string(raw)))[1].raw == raw
