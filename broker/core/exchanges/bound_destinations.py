"""The destinations that several bindings share, for exchange types to keep."""

from ..messages.binding import Destination


class Destinations:
    """Destinations, each counted as often as it is bound: the loss of one binding must not lose another's."""

    __slots__ = ("_all", "_bindings")

    def __init__(self) -> None:
        self._bindings: dict[Destination, int] = {}
        self._all: list[Destination] | None = None

    def add(self, destination: Destination) -> None:
        """One more binding leads there."""
        self._bindings[destination] = self._bindings.get(destination, 0) + 1
        self._all = None

    def remove(self, destination: Destination) -> None:
        """One binding fewer leads there. It must have been added."""
        left = self._bindings[destination] - 1
        if left:
            self._bindings[destination] = left
        else:
            del self._bindings[destination]
            self._all = None

    def all(self) -> list[Destination]:
        """Each destination once, in the order they came. The list is shared: do not change it."""
        if self._all is None:
            self._all = list(self._bindings)
        return self._all

    def __bool__(self) -> bool:
        return len(self._bindings) > 0
