"""The face of an exchange type: what a built-in type and a plugin both implement.

A type decides where a message goes; it holds no queue and delivers nothing. `bound` and `unbound` return notices, which
the core publishes for it.
"""

from typing import ClassVar

from ..table import Table
from .binding import Binding, Destination
from .message import Message


class Notice:
    """A message that an exchange type wants delivered to one destination."""

    __slots__ = ("destination", "message")

    def __init__(self, destination: Destination, message: Message) -> None:
        self.destination = destination
        self.message = message


class ExchangeType:
    """One exchange's routing state. Raises PreconditionFailed (406) for arguments or bindings it cannot accept."""

    __slots__ = ("name", "arguments")

    type_name: ClassVar[str] = ""  # the name on the wire
    by_key: ClassVar[bool] = True  # the route is a function of keys and bindings alone, so the router may remember it

    def __init__(self, name: str, arguments: Table) -> None:
        self.name = name
        self.arguments = arguments

    def check(self, routing_key: str, arguments: Table) -> None:
        """Refuse a binding that this type cannot hold, with 406, before it exists."""

    def bound(self, binding: Binding) -> list[Notice]:
        """A binding that did not exist before has been made."""
        raise NotImplementedError

    def unbound(self, binding: Binding) -> list[Notice]:
        """A binding that `bound` was told of is gone."""
        raise NotImplementedError

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        """The destinations for the routing key and the CC and BCC keys; repeats are allowed, the router drops them."""
        raise NotImplementedError
