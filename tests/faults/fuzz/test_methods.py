"""Method payloads: any bytes give a method or a documented error that names it, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from tests.support import codec
from tests.support.hypothesis_settings import examples
from warren.broker.amqp.errors import SyntaxFault
from warren.broker.wire import method_decoder

from .targets.wire import read_method, read_properties, read_sasl, read_table

INDICES = sorted(commands.INDEX_MAPPING)
letters = st.sampled_from(tuple(b"tbBsuIilLfdDSxATFVUz"))


@st.composite
def tables(draw: st.DrawFn, depth: int = 0) -> bytes:
    """The contents of a field table, valid or nearly so."""
    out = b""
    for _ in range(draw(st.integers(0, 3))):
        letter = draw(letters)
        if letter in b"FA" and depth < 4:
            value = codec.long_string(draw(tables(depth + 1)))
        elif letter in b"SxFA":
            value = codec.long_string(draw(st.binary(max_size=5)))
        else:
            value = draw(st.binary(max_size=9))
        out += codec.short_string(draw(st.sampled_from(("a", "x-priority", "")))) + bytes((letter,)) + value
    return out


arguments = st.one_of(
    st.binary(max_size=60),
    st.tuples(st.binary(max_size=12), tables()).map(lambda parts: parts[0] + codec.long_string(parts[1])),
)


@given(st.one_of(st.sampled_from(INDICES), st.integers(0, (1 << 32) - 1)), arguments)
@examples(400)
def test_any_payload_is_a_method_or_a_documented_error(index: int, payload: bytes) -> None:
    read_method(index.to_bytes(4, "big") + payload, lambda: None)


@given(st.sampled_from(INDICES), st.data())
@examples(200)
def test_a_valid_payload_that_lost_or_gained_bytes_is_refused(index: int, data: st.DataObject) -> None:
    payload = codec.method_payload(commands.INDEX_MAPPING[index], {})
    method_decoder.decode(index, payload)
    place = data.draw(st.integers(4, len(payload)))
    change = data.draw(st.sampled_from(("cut", "more")))
    damaged = payload[:place] if change == "cut" else payload + b"\0" * (1 + place % 3)
    if damaged != payload:
        with pytest.raises(SyntaxFault):
            method_decoder.decode(index, damaged)


@given(tables())
@examples(300)
def test_an_accepted_table_can_be_read_in_every_way(raw: bytes) -> None:
    read_table(raw, lambda: None)


@given(st.one_of(st.binary(max_size=40), st.tuples(st.binary(max_size=4), tables()).map(b"".join)))
@examples(300)
def test_accepted_properties_can_be_decoded(raw: bytes) -> None:
    read_properties(raw, lambda: None)


@given(st.one_of(st.binary(max_size=40), tables()))
@examples(200)
def test_any_response_is_a_login_or_a_syntax_error(response: bytes) -> None:
    read_sasl(response, lambda: None)
