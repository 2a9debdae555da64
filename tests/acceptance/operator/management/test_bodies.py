"""Request bodies: limits, JSON, missing keys, and loose types."""

import sys

import msgspec
import pytest

from tests.support.http import Api
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.api.messages import Publish
from warren.plugins.management.framework.bodies import convert, decode, decode_fields, missing_keys


class Body(msgspec.Struct, rename={"apply_to": "apply-to"}):
    apply_to: str
    durable: bool = False
    count: int = 1
    arguments: dict[str, object] = {}


@pytest.mark.parametrize("body", [b"", b" ", b"null", b"undefined\n", b"{}"])
def test_an_empty_body_is_an_empty_object(body: bytes) -> None:
    assert decode(body) == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'"{}"', "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"),
        *((body, "not_json") for body in (b"abc", b"[]", b"1", b"{", b"\xff", b"[" * 100_000, b'{"a":1}x')),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_body_that_is_not_an_object_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(HTTPError) as caught:
        decode(body)
    assert caught.value.answer.body == {"error": "bad_request", "reason": reason}


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_with_too_many_digits_has_its_own_error(sign: str) -> None:
    limit = sys.get_int_max_str_digits()
    assert decode(b'{"a": %s%s}' % (sign.encode(), b"9" * (limit - 1)))
    body = b'{"properties": %s%s}' % (sign.encode(), b"9" * (limit + 1))
    for decoded in (lambda: decode(body), lambda: decode_fields(body, Publish)):
        with pytest.raises(HTTPError) as caught:
            decoded()
        assert caught.value.answer.body == {"error": "bad_request", "reason": f"a number may have {limit} digits"}


def test_words_are_taken_for_booleans_and_numbers_and_more_keys_are_ignored() -> None:
    body = convert({"apply-to": "all", "durable": "true", "count": "5", "vhost": "/", "arguments": {"a": None}}, Body)
    assert isinstance(body, Body)
    assert (body.apply_to, body.durable, body.count, body.arguments) == ("all", True, 5, {"a": None})


def test_missing_and_mistyped_keys_are_named() -> None:
    for value, reason in (
        ({}, "[{key_missing,apply-to}]"),
        ({"apply-to": 5}, "Expected `str`, got `int` - at `$.apply-to`"),
        ({"apply-to": "all", "count": "many"}, ["not_integer", "many"]),
        ({"apply-to": "all", "count": None}, ["not_integer", None]),
        ({"apply-to": "all", "count": True}, ["not_integer", True]),
        ({"apply-to": "all", "durable": "yes"}, ["not_boolean", "yes"]),
        ({"apply-to": "all", "durable": 1}, ["not_boolean", 1]),
    ):
        with pytest.raises(HTTPError) as caught:
            convert(value, Body)  # type: ignore[arg-type]
        assert caught.value.answer.body == {"error": "bad_request", "reason": reason}


def test_a_body_over_the_limit_is_refused_and_nothing_done() -> None:
    api = Api(max_body_bytes=30)
    said = (400, "bad_request", "Exceeded HTTP request body size limit")
    before = api.peer.node.cluster_name
    assert api.put("/cluster-name", {"name": "x" * 40}).error == said
    assert api.put("/cluster-name", {"name": "x" * 40}, headers={"content-length": ""}).error == said
    assert api.get("/cluster-name").json["name"] == before
    assert api.put("/cluster-name", {"name": "x" * 10}).status == 204


def test_all_that_is_missing_is_named_as_erlang_prints_it() -> None:
    assert missing_keys(["pattern", "definition"]) == "[{key_missing,pattern},{key_missing,definition}]"
    long = missing_keys(["routing_key", "properties", "payload", "payload_encoding"])
    assert long.splitlines() == [
        "[{key_missing,routing_key},",
        " {key_missing,properties},",
        " {key_missing,payload},",
        " {key_missing,payload_encoding}]",
    ]
