"""The bindings that a federated exchange needs at its upstreams; pure. All its links read the same ones.

Local bindings with equal keys and arguments become one upstream binding, whatever their destinations. A binding that
another downstream made has the argument x-bound-from with the name of its exchange, so it equals no other binding.
"""

from collections import OrderedDict

from warren.broker.core.jobs.scheduler import Job
from warren.broker.plugin import Binding, Exchange, Table

CHANGES_BYTES = 1 << 20  # of the latest changes of one exchange that are kept
CHANGE_BYTES = 300  # of one change, beside routing key and arguments
BINDING_COST, ARGUMENTS_SHIFT = 3, 3  # of reading one binding in a job, and 8 bytes of its arguments
STEP_COST = 300  # of one step
READ_SHIFT = 9  # to list 512 changed bindings costs 1 (`turns`)
FREED = 100  # bindings that are freed in one step, each at a cost of 1


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

    @property
    def size(self) -> int:
        return CHANGE_BYTES + len(self.routing_key) + len(self.arguments.framed)


class ExchangeBindings:
    """The upstream bindings of a local exchange, each with its local destinations, and their latest changes.

    `number` counts the changes. A link reads the bindings that changed since its last number, each once however often
    it changed, and acts on their present state. `announced`: all links are notified of a change, and none has read it
    yet.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.announced = False
        listening = exchange.type.upstream_binding
        self._listening = listening[0] if listening is not None else None
        self.number = 0
        self._destinations: dict[UpstreamBinding, set[tuple[str, str]]] = {}  # by kind and name
        self._changes: OrderedDict[int, UpstreamBinding] = OrderedDict()  # by the number of its last change
        self._numbers: dict[UpstreamBinding, int] = {}
        self._changed_bytes = 0
        self._dropped = 0  # the number of the latest change that is no longer kept
        # The first and last number of the changes that were read last, and their bindings
        self._last_read: tuple[int, int, list[UpstreamBinding]] = (0, 0, [])

    def __len__(self) -> int:
        return len(self._destinations)

    def __contains__(self, binding: UpstreamBinding) -> bool:
        return binding in self._destinations

    def change(self, binding: Binding, bound: bool) -> bool:
        """Add or remove a local binding. Returns whether the upstream bindings changed.

        Each link binds by itself the key for which the exchange's type listens.
        """
        if binding.routing_key == self._listening:
            return False
        upstream = UpstreamBinding(binding.routing_key, binding.arguments)
        destination = (binding.destination.kind, binding.destination.name)
        destinations = self._destinations.get(upstream)
        if destinations is None:
            if not bound:
                return False
            self._destinations[upstream] = {destination}
        elif bound:
            destinations.add(destination)
            return False
        else:
            destinations.discard(destination)
            if destinations:
                return False
            del self._destinations[upstream]
        self._note(upstream)
        return True

    def all(self) -> list[UpstreamBinding]:
        """Return the upstream bindings, oldest first."""
        return list(self._destinations)

    def changed_since(self, number: int) -> list[UpstreamBinding] | None:
        """Return the bindings that changed after change `number`, oldest first; None if too many changed since.

        The list is shared by links that read the same changes: do not change it.
        """
        self.announced = False
        if number < self._dropped:
            return None
        if self._last_read[:2] != (number, self.number):
            found = []
            for changed, binding in reversed(self._changes.items()):
                if changed <= number:
                    break
                found.append(binding)
            self._last_read = (number, self.number, found[::-1])
        return self._last_read[2]

    def read_cost(self, number: int) -> int:
        """Return the cost (`turns`) of `changed_since`, or of `all`, unless another link has just read the same."""
        if self._last_read[:2] == (number, self.number):
            return 0
        return min(self.number - number, len(self._destinations) + len(self._changes)) >> READ_SHIFT

    def _note(self, binding: UpstreamBinding) -> None:
        self.number += 1
        before = self._numbers.pop(binding, None)
        if before is not None:
            del self._changes[before]
        else:
            self._changed_bytes += binding.size
        self._changes[self.number] = binding
        self._numbers[binding] = self.number
        while self._changed_bytes > CHANGES_BYTES:
            self._dropped, oldest = self._changes.popitem(last=False)
            del self._numbers[oldest]
            self._changed_bytes -= oldest.size

    def read(self) -> Job:
        """Add the present bindings of the exchange; later changes may come meanwhile."""
        bindings = self.exchange.outgoing
        cost = 0
        for key, binding in list(bindings.items()):
            if bindings.get(key) is binding:
                self.change(binding, True)
            cost += BINDING_COST + (len(binding.arguments.raw) >> ARGUMENTS_SHIFT)
            if cost >= STEP_COST:
                yield cost
                cost = 0

    def clear(self) -> Job:
        """Remove all bindings in steps once no link uses them: to free very many in one turn would take long."""
        while self._destinations:
            for _ in range(min(FREED, len(self._destinations))):
                self._destinations.popitem()
            yield FREED
