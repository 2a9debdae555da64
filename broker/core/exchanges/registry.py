"""The registry of exchange types by name: built-in types and those of plugins.

Arguments that every type understands (`x-delayed-exchange`, `x-message-deduplication`) wrap the type in a decorator.
"""

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table
from ...amqp.limits import SHORT_STRING
from .deduplicating import DeduplicatingExchange
from .delayed import DelayedExchange
from .direct import DirectExchange
from .exchange_type import ExchangeType
from .fanout import FanoutExchange
from .headers import HeadersExchange
from .topic import TopicExchange

BUILT_IN: dict[str, type[ExchangeType]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
}


class Registry:
    """The exchange types by name, each with its distribution, which is empty for built-in types."""

    __slots__ = ("_types", "_distributions")

    def __init__(self) -> None:
        self._types: dict[str, type[ExchangeType]] = {}
        self._distributions: dict[str, str] = {}
        for name, type_ in BUILT_IN.items():
            self.register(name, type_)

    def register(self, name: str, type_: type[ExchangeType], distribution: str = "") -> None:
        """Add a type under its name for clients. Raises ValueError if the name is empty, too long or taken."""
        if not name or len(name.encode("utf-8", "surrogateescape")) > SHORT_STRING:
            raise ValueError(f"the name of an exchange type has 1 to {SHORT_STRING} octets")
        if name in self._types:
            raise ValueError(f"the name is taken, {self._distributions[name] or 'it is built in'}")
        self._types[name] = type_
        self._distributions[name] = distribution

    def find(self, type_name: str) -> type[ExchangeType]:
        """Return the type with this name. Raises PreconditionFailed (406) if there is none."""
        found = self._types.get(type_name)
        if found is None:
            raise PreconditionFailed(
                f"unknown exchange type '{type_name}'" if type_name else "invalid exchange type ''"
            )
        return found

    def create(self, type_name: str, name: str, arguments: Table) -> ExchangeType:
        """Create the type object of a new exchange.

        Raises PreconditionFailed (406) if the type is unknown or refuses the arguments.
        """
        made = self.find(type_name)(name, arguments)
        made.compose(self)
        return made

    def names(self) -> list[str]:
        """Return the known type names, sorted."""
        return sorted(self._types)

    def distributions(self) -> list[tuple[str, str]]:
        """Return name and distribution of each type, sorted."""
        return sorted(self._distributions.items())


def decorate(type_: ExchangeType) -> ExchangeType:
    """Wrap a type in the decorators that its arguments require: deduplication outside, at publish; delay inside."""
    arguments = type_.arguments
    if arguments.flag("x-delayed-exchange"):
        type_ = DelayedExchange.around(type_)
    if arguments.flag("x-message-deduplication"):
        type_ = DeduplicatingExchange.around(type_)
    return type_
