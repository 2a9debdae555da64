"""Deduplication: identities of messages and the window of an exchange (`federation-deduplicate`)."""

from binascii import crc32

import pytest

from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.federation import deduplication
from warren.federation.deduplication import (
    AGE_MS,
    DuplicateWindow,
    Identities,
    effective_max_hops,
    identify,
    identity_from_header,
    with_identity,
)
from warren.federation.hop_headers import ExchangeStamp


def number(value: int) -> bytes:
    return value.to_bytes(20, "big")


def message(body: bytes = b"body", **properties: str) -> Message:
    given = Properties()
    for name, value in properties.items():
        setattr(given, name, value)
    return framed(RoutingAddress("x", "k"), given, body)


def body_frames(message: Message) -> bytes:
    return message.frames[message.header_end + 1 :]


# The window


@pytest.fixture
def window() -> DuplicateWindow:
    return DuplicateWindow()


def test_what_comes_again_is_a_repeat(window: DuplicateWindow) -> None:
    assert not window.is_repeat(number(1), 0)
    assert not window.is_repeat(number(2), 0)
    assert window.is_repeat(number(1), 0)
    assert len(window) == 2


def test_what_has_no_identity_is_never_a_repeat(window: DuplicateWindow) -> None:
    assert not window.is_repeat(b"", 0)
    assert not window.is_repeat(b"", 0)


def test_what_was_refused_may_come_again(window: DuplicateWindow) -> None:
    window.is_repeat(number(1), 0)
    window.forget(number(1))
    assert not window.is_repeat(number(1), 0)


def test_the_window_remembers_a_limited_number(window: DuplicateWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "HALF_SIZE", 10)
    for value in range(1000):
        assert not window.is_repeat(number(value), 0)
        assert all(window.is_repeat(number(one), 0) for one in range(max(value - 9, 0), value + 1))
        assert len(window) <= 20
    assert not window.is_repeat(number(1), 0)


def test_the_window_remembers_so_long_and_no_longer_than_twice_as_long(window: DuplicateWindow) -> None:
    start_ms = 5_000_000_000
    window.is_repeat(number(1), start_ms)
    assert window.is_repeat(number(1), start_ms + AGE_MS - 1)
    assert window.is_repeat(number(1), start_ms + AGE_MS)
    assert not window.is_repeat(number(2), start_ms + 2 * AGE_MS)
    assert not window.is_repeat(number(1), start_ms + 2 * AGE_MS)
    assert not window.is_repeat(number(1), start_ms + 9 * AGE_MS)
    assert len(window) == 1, "old entries are removed at once"


# Identities


def test_all_copies_of_one_publish_have_one_identity_and_no_other_publish_has_it() -> None:
    identities = Identities()
    one, other = message(), message()
    assert identities.of([one]) == identities.of([one])
    first = identities.of([one])
    assert identities.of([other]) != first
    batch = [message() for _ in range(5)]
    given = identities.of(batch)
    assert given == identities.of(list(batch)) and len(set(given)) == 5
    assert set(given).isdisjoint(Identities().of(batch)), "another run of a broker gives others"


def test_an_identity_is_read_back_as_it_was_written() -> None:
    one = message(message_id="m")
    (identity,) = Identities().of([one])
    raw = with_identity(one.property_bytes, identity)
    assert identity_from_header(raw, crc32(b"body")) == identity
    found = Properties.decode(raw)
    assert found.message_id == "m" and found.headers is not None
    assert found.headers.text("x-federation-id") == identity.hex()
    assert identify(raw, b"k", body_frames(one)) == (identity, raw)


def test_an_identity_does_not_fit_another_body() -> None:
    (identity,) = Identities().of([message()])
    raw = with_identity(message().property_bytes, identity)
    mine = message(b"something of my own")
    assert identity_from_header(raw, crc32(mine.body)) == b""
    assert identify(raw, b"k", body_frames(mine)) == (b"", raw)


@pytest.mark.parametrize("value", ["", "xy" * 20, "ä" * 40, "00", 5, None, ["a"], "0" * 41])
def test_what_clients_write_there_is_no_identity(value: object) -> None:
    raw = Properties(headers=Table.of({"x-federation-id": value})).encode()
    assert identity_from_header(raw, 0) == b""
    assert identify(raw, b"k", b"")[0] == b""


def test_bytes_that_are_no_properties_have_no_identity() -> None:
    for broken in (b"", b"\x20", b"\x20\x00\x00\x00\x00\x20x-federation-id", b"\x00\x80\x09m"):
        assert identify(broken, b"k", b"") == (b"", broken)


def test_without_an_identity_a_message_gets_one_of_its_message_id_key_and_body() -> None:
    def of(body: bytes, key: bytes, **properties: str) -> bytes:
        one = message(body, **properties)
        return identify(one.property_bytes, key, body_frames(one))[0]

    identity = of(b"body", b"k", message_id="1")
    assert len(identity) == 20
    assert of(b"body", b"k", message_id="1", app_id="other") == identity
    assert len({identity, of(b"bodies", b"k", message_id="1"), of(b"body", b"l", message_id="1")}) == 3
    assert of(b"body", b"k", message_id="2") != identity
    assert of(b"body", b"k") == of(b"body", b"k", message_id="") == b"", "or two equal messages would be one"


def test_the_identity_that_a_link_makes_goes_on_with_the_message() -> None:
    one = message(message_id="1")
    identity, raw = identify(one.property_bytes, b"k", body_frames(one))
    again, same = identify(ExchangeStamp("amqp://h", "x", "a", "/", False)(raw, True), b"k", body_frames(one))
    assert again == identity
    assert identity_from_header(same, crc32(one.body)) == identity


def test_a_body_in_several_frames_is_one_body() -> None:
    def frame(part: bytes) -> bytes:
        return b"\x03\x00\x01" + len(part).to_bytes(4, "big") + part + b"\xce"

    raw = message(message_id="1").property_bytes
    whole = identify(raw, b"k", frame(b"some body"))
    assert identify(raw, b"k", frame(b"some ") + frame(b"body")) == whole
    assert identify(raw, b"k", b"")[0] != whole[0]


def test_hops_do_not_end_the_way_of_what_has_an_identity() -> None:
    assert effective_max_hops(1, number(1)) > 1000
    assert effective_max_hops(3, b"") == 3
    assert effective_max_hops(0, number(1)) == 0, "no hops is no federation"
