"""The exchange types that this broker knows, by their name on the wire. Built-in types and plugins enter alike."""

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table
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
NAME_LIMIT = 255  # octets, as it stands in a short string of exchange.declare


class Registry:
    """Exchange types by name, each with the distribution that it came in, empty for those that are built in."""

    __slots__ = ("_types", "_distributions")

    def __init__(self) -> None:
        self._types: dict[str, type[ExchangeType]] = {}
        self._distributions: dict[str, str] = {}
        for name, type_ in BUILT_IN.items():
            self.register(name, type_)

    def register(self, name: str, type_: type[ExchangeType], distribution: str = "") -> None:
        """Enter a type under its name on the wire. ValueError when that is none, or taken."""
        if not name or len(name.encode("utf-8", "surrogateescape")) > NAME_LIMIT:
            raise ValueError(f"the name of an exchange type has 1 to {NAME_LIMIT} octets")
        if name in self._types:
            raise ValueError(f"the name is taken, {self._distributions[name] or 'it is built in'}")
        self._types[name] = type_
        self._distributions[name] = distribution

    def find(self, type_name: str) -> type[ExchangeType]:
        """The type of this name; 406 when there is none."""
        found = self._types.get(type_name)
        if found is None:
            raise PreconditionFailed(
                f"unknown exchange type '{type_name}'" if type_name else "invalid exchange type ''"
            )
        return found

    def create(self, type_name: str, name: str, arguments: Table) -> ExchangeType:
        """The routing state of a new exchange; 406 when the type is unknown or refuses the arguments."""
        made = self.find(type_name)(name, arguments)
        made.compose(self)
        return made

    def names(self) -> list[str]:
        """The known type names, sorted."""
        return sorted(self._types)

    def listed(self) -> list[tuple[str, str]]:
        """Name and distribution of each type, sorted."""
        return sorted(self._distributions.items())
