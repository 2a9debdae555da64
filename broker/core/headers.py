"""The headers exchange: a binding's arguments are what a message's headers must hold (spec/core.md 18)."""

from ..errors import PreconditionFailed
from ..table import Table, Value, equal_header, term_of, type_name
from .binding import Binding, Destination
from .exchange_type import ExchangeType, Notice
from .message import Message

X_MATCH = "x-match"
BOUND_FROM = "x-bound-from"  # what links of federation add to bindings; messages never have it
MODES = ("all", "any", "all-with-x", "any-with-x")


class _Wanted:
    """The headers that one binding asks for."""

    __slots__ = ("any", "destination", "headers")

    def __init__(self, binding: Binding) -> None:
        mode = match_mode(binding.arguments)
        with_x = mode.endswith("-with-x")
        self.destination = binding.destination
        self.any = mode.startswith("any")
        self.headers = [
            (key, value)
            for key, value in binding.arguments.items()
            if key not in (X_MATCH, BOUND_FROM) and (with_x or not key.startswith("x-"))
        ]

    def matches(self, sent: Table) -> bool:
        """Whether these headers hold one (any) or each (all) of what is asked. Of nothing, all is met and any not."""
        for key, wanted in self.headers:
            value = sent.get(key)
            if (value is not None and equal_header(wanted, value)) == self.any:
                return self.any
        return not self.any


class HeadersExchange(ExchangeType):
    __slots__ = ("_bound",)

    by_key = False

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._bound: dict[tuple[Destination, str, bytes], _Wanted] = {}

    def check(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        match_mode(arguments)

    def bound(self, binding: Binding) -> list[Notice]:
        self._bound[_identity(binding)] = _Wanted(binding)
        return []

    def unbound(self, binding: Binding) -> list[Notice]:
        del self._bound[_identity(binding)]
        return []

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        sent = message.headers
        return [wanted.destination for wanted in self._bound.values() if wanted.matches(sent)]


def match_mode(arguments: Table) -> str:
    """The x-match of a binding; `all` when absent. 406 when it is none of MODES or no string."""
    value: Value | None = arguments.get(X_MATCH)
    if value is None:
        return "all"
    mode = arguments.text(X_MATCH)
    if mode is None:
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(value)} (value {term_of(value)}); expected longstr"
        )
    if mode not in MODES:
        raise PreconditionFailed(
            f"Invalid x-match field value {term_of(value)}; expected all, any, all-with-x, or any-with-x"
        )
    return mode


def _identity(binding: Binding) -> tuple[Destination, str, bytes]:
    """What tells two bindings of one exchange apart."""
    return binding.destination, binding.routing_key, binding.arguments.key()
