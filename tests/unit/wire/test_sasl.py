"""SASL responses of clients."""

import pytest

from tests.support import codec
from tests.support.codec import Typed
from warren.broker.amqp.errors import SyntaxFault
from warren.broker.wire import sasl


@pytest.mark.parametrize(
    "response, login",
    [
        (b"\0user\0secret", ("user", b"secret")),
        (b"user\0user\0secret", ("user", b"secret")),
        (b"\0user\0", ("user", b"")),
        (b"\0\0", ("", b"")),
        (b"\0\xff\0\xfe", ("\udcff", b"\xfe")),
        ("\0ü\0ß".encode(), ("ü", "ß".encode())),
    ],
)
def test_plain_is_two_names_and_a_password(response: bytes, login: tuple[str, bytes]) -> None:
    assert sasl.plain(response) == login


@pytest.mark.parametrize("response", [b"", b"user", b"user\0secret", b"other\0user\0secret", b"\0user\0se\0cret"])
def test_plain_is_nothing_else(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        sasl.plain(response)


def test_amqplain_is_a_table_without_its_length() -> None:
    table = codec.pairs({"PASSWORD": "secret", "LOGIN": "user", "more": 1})
    assert sasl.amqplain(table) == ("user", b"secret")
    assert sasl.amqplain(codec.pairs({"LOGIN": Typed("x", "user"), "PASSWORD": b"\xff"})) == ("user", b"\xff")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\xff",
        codec.pairs({"LOGIN": "user"}),
        codec.pairs({"PASSWORD": "secret"}),
        codec.pairs({"LOGIN": "user", "PASSWORD": 5}),
        codec.pairs({"LOGIN": "user", "PASSWORD": {}}),
        codec.table({"LOGIN": "user", "PASSWORD": "secret"}),
    ],
)
def test_amqplain_is_nothing_else(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        sasl.amqplain(response)
