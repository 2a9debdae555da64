"""The exchange type x-delayed-message: routes each message after the delay in its header x-delay.

It routes as the exchange type that the argument x-delayed-type names, which gets all its arguments. The broker can
delay messages by itself: the argument x-delayed-exchange gives exchanges of any type the same behaviour.
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
