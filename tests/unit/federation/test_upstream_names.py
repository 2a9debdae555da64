"""The names of the upstream queue and of the internal exchanges."""

import pytest

from warren.broker.amqp.errors import Invalid
from warren.federation.upstream_names import base_name, internal_name, next_generation


@pytest.mark.parametrize(
    ("upstream", "vhost", "exchange", "upstream_vhost", "name"),
    [
        ("logs", "/", "logs", "/", "federation: logs -> rabbit@b"),
        ("up", "/", "down", "/", "federation: up -> rabbit@b:down"),
        ("logs", "d", "logs", "u", "federation: logs -> rabbit@b:d:logs"),
        ("up", "d", "down", "u", "federation: up -> rabbit@b:d:down"),
    ],
)
def test_the_name_says_what_differs(upstream: str, vhost: str, exchange: str, upstream_vhost: str, name: str) -> None:
    assert base_name(upstream, "rabbit@b", vhost, exchange, upstream_vhost) == name
    assert internal_name(name, "B") == f"{name} B"


def test_a_name_that_amqp_has_no_room_for_is_refused() -> None:
    room = 255 - len("federation:  -> c B")
    assert len(internal_name(base_name("x" * room, "c", "/", "x" * room, "/"), "A")) == 255
    with pytest.raises(Invalid, match="has 256 bytes, and a name 255 at most"):
        base_name("x" * (room + 1), "c", "/", "x" * (room + 1), "/")
    with pytest.raises(Invalid, match="bytes"):
        base_name("ä" * 120, "c", "/", "x", "/")


def test_the_letters_take_turns_and_the_first_is_b() -> None:
    assert [next_generation(letter) for letter in ("", "A", "B")] == ["B", "B", "A"]
