"""The registry of exchange types."""

import pytest

from broker.core.direct import DirectExchange
from broker.core.exchange_type import ExchangeType
from broker.core.headers import HeadersExchange
from broker.core.registry import Registry
from broker.errors import PreconditionFailed
from broker.table import Table


class EchoExchange(ExchangeType):
    type_name = "x-echo"


class NamelessExchange(ExchangeType):
    pass


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_the_built_in_types_are_there(registry):
    assert registry.names() == ["direct", "fanout", "headers", "topic"]
    assert registry.find("headers") is HeadersExchange


def test_each_exchange_gets_a_state_of_its_own(registry):
    arguments = Table.of({"k": 1})
    made = registry.create("direct", "x", arguments)
    assert type(made) is DirectExchange
    assert (made.name, made.arguments) == ("x", arguments)
    assert registry.create("direct", "x", arguments) is not made


def test_a_plugin_enters_by_the_same_door(registry):
    registry.register(EchoExchange)
    assert type(registry.create("x-echo", "x", Table.EMPTY)) is EchoExchange
    assert "x-echo" not in Registry().names()


@pytest.mark.parametrize(
    ("type_name", "text"), [("x-none", "unknown exchange type 'x-none'"), ("", "invalid exchange type ''")]
)
def test_an_unknown_type_is_refused(registry, type_name, text):
    with pytest.raises(PreconditionFailed) as caught:
        registry.create(type_name, "x", Table.EMPTY)
    assert caught.value.text == text


def test_a_type_without_a_name_or_with_one_that_is_taken_is_our_own_mistake(registry):
    with pytest.raises(ValueError, match="no type_name"):
        registry.register(NamelessExchange)
    with pytest.raises(ValueError, match="twice"):
        registry.register(DirectExchange)
