"""The registry of exchange types."""

import pytest

from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.core.exchanges.built_in import new_registry
from warren.broker.core.exchanges.direct import DirectExchange
from warren.broker.core.exchanges.exchange_type import ExchangeType, Registry
from warren.broker.core.exchanges.headers import HeadersExchange


class EchoExchange(ExchangeType):
    pass


class TwiceExchange(ExchangeType):
    """An exchange type that delegates to another."""

    def compose(self, registry: Registry) -> None:
        self.inner = registry.create(self.arguments.text("inner") or "", self.name, self.arguments)


@pytest.fixture
def registry() -> Registry:
    return new_registry()


def test_the_built_in_types_are_there(registry):
    assert registry.names() == ["direct", "fanout", "headers", "topic"]
    assert registry.find("headers") is HeadersExchange


def test_each_exchange_gets_a_state_of_its_own(registry):
    arguments = Table.of({"k": 1})
    made = registry.create("direct", "x", arguments)
    assert type(made) is DirectExchange
    assert (made.name, made.arguments) == ("x", arguments)
    assert registry.create("direct", "x", arguments) is not made


def test_a_plugin_registers_its_type_like_a_built_in_one(registry):
    registry.register("x-echo", EchoExchange)
    assert type(registry.create("x-echo", "x", Table.EMPTY)) is EchoExchange
    assert "x-echo" not in new_registry().names()


def test_the_registry_lists_the_distribution_of_each_type(registry):
    registry.register("x-echo", EchoExchange, "echoes 1.0")
    assert registry.distributions() == [
        ("direct", ""),
        ("fanout", ""),
        ("headers", ""),
        ("topic", ""),
        ("x-echo", "echoes 1.0"),
    ]


def test_a_type_can_be_made_of_another(registry):
    registry.register("x-twice", TwiceExchange)
    made = registry.create("x-twice", "x", Table.of({"inner": "direct"}))
    assert type(made.inner) is DirectExchange
    with pytest.raises(PreconditionFailed, match="unknown exchange type 'x-none'"):
        registry.create("x-twice", "x", Table.of({"inner": "x-none"}))


@pytest.mark.parametrize(
    ("type_name", "text"), [("x-none", "unknown exchange type 'x-none'"), ("", "invalid exchange type ''")]
)
def test_an_unknown_type_is_refused(registry, type_name, text):
    with pytest.raises(PreconditionFailed) as caught:
        registry.create(type_name, "x", Table.EMPTY)
    assert caught.value.text == text


def test_a_type_needs_a_valid_and_unused_name(registry):
    for name in ("", "x" * 256):
        with pytest.raises(ValueError, match="1 to 255 octets"):
            registry.register(name, EchoExchange)
    with pytest.raises(ValueError, match="taken, it is built in"):
        registry.register("direct", EchoExchange)
    registry.register("x-echo", EchoExchange, "echoes 1.0")
    with pytest.raises(ValueError, match=r"taken, echoes 1\.0"):
        registry.register("x-echo", EchoExchange, "others 2.0")
