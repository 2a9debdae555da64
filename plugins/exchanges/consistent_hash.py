"""The exchange type x-consistent-hash: a hash of the message chooses one destination, each as often as its weight says.

The binding key is the weight, from 1 to 10000. What is hashed is the routing key or, as the arguments of the exchange
say, a header (`hash-header`, or LavinMQ's `x-hash-on`) or a property (`hash-property`).

The hash leads to one of PLACES places, and each place belongs to one destination, found by weighted rendezvous hashing:
every destination draws a number for the place, and the best one has it. So a destination that comes takes its share of
places from all others, one that goes leaves its own to them, and no other place changes hands. A draw depends on the
place and the name alone: neither the order of bindings nor a restart, nor the machine, makes a difference.

A place costs one draw of each destination, once; then it is remembered until the bindings change. As places are dealt
out by chance, a share of s places in all is out by 1/sqrt(s) of itself: of 10 equal queues by 0.6 %, of 1,000 by 6 %.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from math import inf, log
from operator import attrgetter
from typing import Final

from warren.broker.amqp.field_table import term_of, text_of, type_name
from warren.broker.amqp.limits import SHORT_STRING
from warren.broker.plugin import (
    Binding,
    Destination,
    Emission,
    ExchangeType,
    Message,
    PreconditionFailed,
    Properties,
    Table,
    Value,
    stable_hash,
)

HEADER: Final = ("hash-header", "x-hash-on")  # RabbitMQ's name, and LavinMQ's
PROPERTY: Final = "hash-property"
PROPERTIES: Final[dict[str, Callable[[Properties], str | int | None]]] = {
    name: attrgetter(name) for name in ("message_id", "correlation_id", "timestamp")
}
ALGORITHM: Final = "x-algorithm"
ALGORITHMS: Final = ("ring", "jump")  # LavinMQ's; they differ in where a message goes, which no client can count on
INTEGER: Final = re.compile("[+-]?[0-9]+")
WEIGHT_LIMIT: Final = 10_000
PLACES: Final = 1 << 18  # a megabyte for each exchange that is in use
MASK: Final = (1 << 64) - 1


class _Share:
    """A destination, and the weights of its bindings, of which the oldest counts."""

    __slots__ = ("found", "seed", "weights")

    def __init__(self, destination: Destination) -> None:
        self.found = [destination]
        name = f"{destination.kind}\0{destination.name}"
        self.seed = stable_hash(name.encode("utf-8", "surrogateescape"))
        self.weights: dict[Binding, int] = {}

    @property
    def weight(self) -> int:
        return next(iter(self.weights.values()))


class ConsistentHashExchange(ExchangeType):
    """Distributes messages over the bound destinations by a hash of the routing key, a header or a property.

    Only a hash of the routing key leaves the exchange `routes_by_key_only`.
    """

    description = "Consistent Hashing Exchange"

    __slots__ = ("routes_by_key_only", "_header", "_property", "_shares", "_found", "_drawing", "_owners")

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._header = hashed_header(arguments)
        self._property = hashed_property(arguments)
        if self._header is not None and self._property is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        check_algorithm(arguments)
        self.routes_by_key_only = self._header is None and self._property is None
        self._shares: dict[Destination, _Share] = {}
        self._found: list[list[Destination]] = []  # of each share, what it is to be routed to
        self._drawing: dict[int, list[tuple[int, int]]] = {}  # by weight, the seeds of shares and their index in _found
        self._owners: array[int] | None = None  # by place, 1 + the index in _found; 0 where nobody looked yet

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        """Refuse what is no weight, with 406."""
        if not INTEGER.fullmatch(routing_key):
            shown = term_of(("S", routing_key.encode("utf-8", "surrogateescape")))
            raise PreconditionFailed(f"The binding key must be an integer: {shown}")
        weight = int(routing_key)
        if weight < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if weight > WEIGHT_LIMIT:
            raise PreconditionFailed(f"The binding key must not exceed {WEIGHT_LIMIT}")

    def on_bind(self, binding: Binding) -> list[Emission]:
        share = self._shares.get(binding.destination)
        if share is None:
            share = self._shares[binding.destination] = _Share(binding.destination)
            self._owners = None
        share.weights[binding] = int(binding.routing_key)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        share = self._shares[binding.destination]
        weight = share.weight
        del share.weights[binding]
        if not share.weights:
            del self._shares[binding.destination]
        if not share.weights or share.weight != weight:
            self._owners = None
        return []

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        """One destination, by the routing key alone: CC and BCC do not count."""
        if not self._shares:
            return []
        owners = self._owners
        if owners is None:
            owners = self._owners = self._dealt()
        place = stable_hash(self._octets(keys[0], message)) % PLACES
        owner = owners[place]
        if not owner:
            owner = owners[place] = 1 + best(self._drawing, place)
        return self._found[owner - 1]

    def _dealt(self) -> array[int]:
        """Places for the shares that there are now, of which nobody has looked at one yet."""
        self._found = [share.found for share in self._shares.values()]
        self._drawing = {}
        for index, share in enumerate(self._shares.values()):
            self._drawing.setdefault(share.weight, []).append((share.seed, index))
        return array("I", bytes(4 * PLACES))

    def _octets(self, routing_key: str, message: Message) -> bytes:
        """What of the message is hashed. Nothing stands for a header or property that is not there."""
        if self._header is not None:
            return octets_of(message.headers.get(self._header))
        if self._property is None:
            return routing_key.encode("utf-8", "surrogateescape")
        value = self._property(message.properties)
        return b"" if value is None else str(value).encode("utf-8", "surrogateescape")


def best(drawing: dict[int, list[tuple[int, int]]], place: int) -> int:
    """The index of the share to which a place belongs. HOT: `make bench-hash`, unseen keys.

    A draw is the time until the first event of a process that has `weight` events in unit time, with the sign turned:
    that each of such processes comes first in proportion to its weight is what they are known for. Among equal weights
    the highest of the numbers from which times are made has the best time.
    """
    spread = mixed(place)
    found, longest = 0, -inf
    for weight, members in drawing.items():
        highest, its_index = -1, 0
        for seed, index in members:
            number = spread ^ seed  # mixed, as below
            number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
            number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
            number ^= number >> 31
            if number > highest:
                highest, its_index = number, index
        drawn = log((highest + 0.5) * 2.0**-64) / weight
        if drawn > longest:
            found, longest = its_index, drawn
    return found


def mixed(number: int) -> int:
    """64 bits in which each depends on all of the number's (the finalizer of SplitMix64). Placement depends on it."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


def octets_of(value: Value | None) -> bytes:
    """A header as it is hashed: strings as they are, all else as text. So an integer of any width is the same."""
    if value is None:
        return b""
    return value[1] if isinstance(value[1], bytes) else term_of(value).encode()


def hashed_header(arguments: Table) -> str | None:
    """The header to hash, if any; 406 where it is no name."""
    for key in HEADER:
        value = arguments.get(key)
        if value is None:
            continue
        name = arguments.text(key)
        if name is None:
            raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{key}'")
        if not 0 < len(name.encode("utf-8", "surrogateescape")) <= SHORT_STRING:
            raise PreconditionFailed(f"invalid value for arg '{key}': a header's name has 1 to {SHORT_STRING} octets")
        return name
    return None


def hashed_property(arguments: Table) -> Callable[[Properties], str | int | None] | None:
    """How to get the property to hash, if any; 406 where it is not one of PROPERTIES."""
    value = arguments.get(PROPERTY)
    if value is None:
        return None
    found = PROPERTIES.get(arguments.text(PROPERTY) or "")
    if found is None:
        raise PreconditionFailed(f"Unsupported property: {text_of(value)}")
    return found


def check_algorithm(arguments: Table) -> None:
    """Refuse, with 406, what LavinMQ does not know either."""
    value = arguments.get(ALGORITHM)
    if value is not None and (arguments.text(ALGORITHM) or "").lower() not in ALGORITHMS:
        raise PreconditionFailed(f"Unsupported algorithm: {text_of(value)}")
