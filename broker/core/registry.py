"""The exchange types that this broker knows, by their name on the wire. Built-in types and plugins enter alike."""

from ..errors import PreconditionFailed
from ..table import Table
from .direct import DirectExchange
from .exchange_type import ExchangeType
from .fanout import FanoutExchange
from .headers import HeadersExchange
from .topic import TopicExchange


class Registry:
    """Exchange types by name."""

    __slots__ = ("_types",)

    def __init__(self) -> None:
        self._types: dict[str, type[ExchangeType]] = {}
        for built_in in (DirectExchange, FanoutExchange, HeadersExchange, TopicExchange):
            self.register(built_in)

    def register(self, exchange_type: type[ExchangeType]) -> None:
        """Enter a type under its `type_name`. ValueError when the name is empty or taken."""
        name = exchange_type.type_name
        if not name:
            raise ValueError(f"exchange type {exchange_type.__name__} has no type_name")
        if name in self._types:
            raise ValueError(f"exchange type '{name}' is registered twice")
        self._types[name] = exchange_type

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
        return self.find(type_name)(name, arguments)

    def names(self) -> list[str]:
        """The known type names, sorted."""
        return sorted(self._types)
