"""Frames that are still sent when a channel or a connection is closed."""

from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection

from tests.support import codec
from tests.support.in_process import InProcessPeer


def published(exchange: str) -> bytes:
    fields = {"exchange": exchange, "routing_key": "nowhere"}
    return codec.method_frame(1, Basic.Publish, fields) + codec.header_frame(1, 0)


def soft_error() -> bytes:
    return published("no such exchange")


def hard_error() -> bytes:
    return codec.method_frame(1, Channel.Open, {})


def goodbye() -> bytes:
    return codec.method_frame(0, Connection.Close, {"reply_code": 200})


@pytest.mark.parametrize("end", [soft_error, hard_error, goodbye])
def test_what_was_published_before_the_end_is_confirmed_before_it(end: Callable[[], bytes]) -> None:
    client = InProcessPeer().connect()
    ch = client.channel(1)
    ch.confirm()
    client.raw(published("") * 3 + end())
    confirmed: Any = ch.next()
    assert isinstance(confirmed, Basic.Ack) and (confirmed.delivery_tag, confirmed.multiple) == (3, True)


def test_the_log_names_a_connection_that_was_lost() -> None:
    broker = InProcessPeer()
    broker.connect().vanish()
    assert [bool(fields["connection"]) for event, _, fields in broker.log if event == "connection_lost"] == [True]
