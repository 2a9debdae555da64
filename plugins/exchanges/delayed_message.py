"""The exchange type x-delayed-message: holds messages for as long as their header x-delay says, and routes them then.

It routes as the type does that the argument x-delayed-type names, which is given all the arguments. Any other exchange
does the same with the argument x-delayed-exchange, as the broker can do that by itself.
"""

from warren.broker.core.exchanges.delayed import DelayedExchange
from warren.broker.plugin import PreconditionFailed, Registry

TYPE = "x-delayed-type"


class DelayedMessageExchange(DelayedExchange):
    description = "Delayed Message Exchange."

    __slots__ = ()

    fixed_arguments = (TYPE,)

    def compose(self, registry: Registry) -> None:
        named = self.arguments.text(TYPE) or ""
        if named not in registry.names() or issubclass(registry.find(named), DelayedExchange):
            raise PreconditionFailed(f"Invalid argument, '{TYPE}' must be an existing exchange type")
        self.inner = registry.create(named, self.name, self.arguments)
