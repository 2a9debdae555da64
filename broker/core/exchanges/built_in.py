"""The exchange types that are built in, and the two that wrap others.

Arguments that every type understands (`x-delayed-exchange`, `x-message-deduplication`) wrap the type in a decorator.
"""

from .deduplicating import DeduplicatingExchange
from .delayed import DelayedExchange
from .direct import DirectExchange
from .exchange_type import ExchangeType, Registry
from .fanout import FanoutExchange
from .headers import HeadersExchange
from .topic import TopicExchange

BUILT_IN: dict[str, type[ExchangeType]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
}


def new_registry() -> Registry:
    """Return a registry with the built-in types."""
    registry = Registry()
    for name, type_ in BUILT_IN.items():
        registry.register(name, type_)
    return registry


def decorate(type_: ExchangeType) -> ExchangeType:
    """Wrap a type in the decorators that its arguments require: deduplication outside, at publish; delay inside."""
    arguments = type_.arguments
    if arguments.flag("x-delayed-exchange"):
        type_ = DelayedExchange.around(type_)
    if arguments.flag("x-message-deduplication"):
        type_ = DeduplicatingExchange.around(type_)
    return type_
