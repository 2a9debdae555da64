"""The bindings of a federated exchange as its upstream is to have them (spec/federation.md 5.1); pure.

What leads to several destinations here is one binding there: those with the same key and arguments are one group. A
binding that is another downstream's own carries x-bound-from, which names the exchange that it leads to there, so it is
in a group by itself. Adding and removing give the difference; repeated they give nothing.
"""

from __future__ import annotations

from warren.broker.plugin import Binding, Table


class UpstreamBinding:
    """One binding at the upstream. Equal where key and arguments are, in whatever order the arguments stand."""

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
        return f"Group({self.routing_key!r}, {self.arguments!r})"


class BindingSet:
    """Of one exchange, with the destinations that each has here."""

    __slots__ = ("_destinations",)

    def __init__(self) -> None:
        self._destinations: dict[UpstreamBinding, set[tuple[str, str]]] = {}  # by kind and name

    def __len__(self) -> int:
        return len(self._destinations)

    def __contains__(self, group: UpstreamBinding) -> bool:
        return group in self._destinations

    def add(self, binding: Binding) -> UpstreamBinding | None:
        """The group that is now to be bound at the upstream, None where it is there already."""
        group = UpstreamBinding(binding.routing_key, binding.arguments)
        there = self._destinations.get(group)
        end = (binding.destination.kind, binding.destination.name)
        if there is not None:
            there.add(end)
            return None
        self._destinations[group] = {end}
        return group

    def remove(self, binding: Binding) -> UpstreamBinding | None:
        """The group that nobody needs any more, None where somebody does, or it was not known."""
        group = UpstreamBinding(binding.routing_key, binding.arguments)
        there = self._destinations.get(group)
        if there is None:
            return None
        there.discard((binding.destination.kind, binding.destination.name))
        if there:
            return None
        del self._destinations[group]
        return group

    def all(self) -> list[UpstreamBinding]:
        """In the order in which they came."""
        return list(self._destinations)
