"""The set of bindings that a federated exchange needs at its upstream; pure.

Local bindings with equal keys and arguments become one upstream binding, whatever their destinations. A binding that
another downstream made has the argument x-bound-from with the name of its exchange, so it equals no other binding.
"""

from __future__ import annotations

from warren.broker.plugin import Binding, Table


class UpstreamBinding:
    """An upstream binding, equal to another if routing key and arguments are equal; the arguments' order is ignored."""

    __slots__ = ("routing_key", "arguments", "_identity")

    def __init__(self, routing_key: str, arguments: Table) -> None:
        self.routing_key = routing_key
        self.arguments = arguments
        self._identity = (routing_key, arguments.key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UpstreamBinding) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"UpstreamBinding({self.routing_key!r}, {self.arguments!r})"


class BindingSet:
    """The upstream bindings of one exchange, each with its local destinations."""

    __slots__ = ("_destinations",)

    def __init__(self) -> None:
        self._destinations: dict[UpstreamBinding, set[tuple[str, str]]] = {}  # by kind and name

    def __len__(self) -> int:
        return len(self._destinations)

    def __contains__(self, binding: UpstreamBinding) -> bool:
        return binding in self._destinations

    def add(self, binding: Binding) -> UpstreamBinding | None:
        """Add a local binding. Returns the binding to make upstream, or None if the upstream has it."""
        upstream = UpstreamBinding(binding.routing_key, binding.arguments)
        destinations = self._destinations.get(upstream)
        destination = (binding.destination.kind, binding.destination.name)
        if destinations is not None:
            destinations.add(destination)
            return None
        self._destinations[upstream] = {destination}
        return upstream

    def remove(self, binding: Binding) -> UpstreamBinding | None:
        """Remove a local binding. Returns the binding to delete upstream, or None if another local one needs it."""
        upstream = UpstreamBinding(binding.routing_key, binding.arguments)
        destinations = self._destinations.get(upstream)
        if destinations is None:
            return None
        destinations.discard((binding.destination.kind, binding.destination.name))
        if destinations:
            return None
        del self._destinations[upstream]
        return upstream

    def all(self) -> list[UpstreamBinding]:
        """Return the upstream bindings, oldest first."""
        return list(self._destinations)
