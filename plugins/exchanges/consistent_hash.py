"""The exchange type x-consistent-hash: a hash of the message selects one destination, in proportion to weights.

The binding key is the weight, from 1 to 10000. The hash is that of the routing key or, if the exchange's arguments ask
for it, of a header (`hash-header`, or LavinMQ's `x-hash-on`) or a property (`hash-property`).

The hash modulo SLOTS is a slot, and weighted rendezvous hashing assigns each slot to one destination: every destination
gets a score for the slot, and the highest score wins. So a new destination takes its share of slots from all others, a
deleted one leaves its slots to all others, and no other slot moves. A score depends only on the slot and the name of
the destination, not on the order of bindings, a restart or the machine.

Assigning a slot costs one score for each destination; the result is kept until the bindings change. Since slots are
assigned by chance, a share of s slots deviates by about 1/sqrt(s) of itself: 0.6 % for each of 10 equal queues, 6 % for
each of 1,000.
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
ALGORITHMS: Final = ("ring", "jump")  # LavinMQ's; they select different destinations, on which no client can rely
INTEGER: Final = re.compile("[+-]?[0-9]+")
WEIGHT_LIMIT: Final = 10_000
SLOTS: Final = 1 << 18  # take a megabyte for each exchange in use
MASK: Final = (1 << 64) - 1
SCORES_SHIFT: Final = 1  # of 2 scores: 1 microsecond


class _Share:
    """A destination and the weights of its bindings, of which the oldest counts."""

    __slots__ = ("route", "seed", "weights")

    def __init__(self, destination: Destination) -> None:
        self.route = [destination]
        name = f"{destination.kind}\0{destination.name}"
        self.seed = stable_hash(name.encode("utf-8", "surrogateescape"))
        self.weights: dict[Binding, int] = {}

    @property
    def weight(self) -> int:
        return next(iter(self.weights.values()))


class ConsistentHashExchange(ExchangeType):
    """A consistent hash exchange. It `routes_by_key_only` unless it hashes a header or a property."""

    description = "Consistent Hashing Exchange"

    __slots__ = ("routes_by_key_only", "_route_cost", "_header", "_property", "_shares", "_routes", "_seeds", "_owners")

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._header = hashed_header(arguments)
        self._property = hashed_property(arguments)
        if self._header is not None and self._property is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        check_algorithm(arguments)
        self.routes_by_key_only = self._header is None and self._property is None
        self._route_cost = 0
        self._shares: dict[Destination, _Share] = {}
        self._routes: list[list[Destination]] = []  # the destination of each share, as a route
        self._seeds: dict[int, list[tuple[int, int]]] = {}  # by weight, the seeds of shares and their index in _routes
        self._owners: array[int] | None = None  # by slot, 1 + the index in _routes; 0 if not assigned yet

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        """Refuse a binding key that is no weight, with 406."""
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
        """Return one destination. Of the keys only the routing key counts, not CC and BCC."""
        if not self._shares:
            return []
        owners = self._owners
        if owners is None:
            owners = self._owners = self._unassigned_slots()
        slot = stable_hash(self._hash_input(keys[0], message)) % SLOTS
        owner = owners[slot]
        self._route_cost = 0
        if not owner:
            self._route_cost = len(self._shares) >> SCORES_SHIFT
            owner = owners[slot] = 1 + highest_score(self._seeds, slot)
        return self._routes[owner - 1]

    @property
    def route_cost(self) -> int:
        return self._route_cost

    def _unassigned_slots(self) -> array[int]:
        """Index the present shares and return the array of their slots, none of which is assigned yet."""
        self._routes = [share.route for share in self._shares.values()]
        self._seeds = {}
        for index, share in enumerate(self._shares.values()):
            self._seeds.setdefault(share.weight, []).append((share.seed, index))
        return array("I", bytes(4 * SLOTS))

    def _hash_input(self, routing_key: str, message: Message) -> bytes:
        """Return the bytes of the message to hash; none if the header or property is missing."""
        if self._header is not None:
            return header_bytes(message.headers.get(self._header))
        if self._property is None:
            return routing_key.encode("utf-8", "surrogateescape")
        value = self._property(message.properties)
        return b"" if value is None else str(value).encode("utf-8", "surrogateescape")


def highest_score(seeds: dict[int, list[tuple[int, int]]], slot: int) -> int:
    """Return the index of the share with the highest score for a slot. HOT: `make bench-hash`, unseen keys.

    A score is the negative time until the first event of a Poisson process with the rate `weight`: among such processes
    each is the first in proportion to its rate. Of equal weights, the highest random number has the highest score.
    """
    spread = mix(slot)
    winner, best = 0, -inf
    for weight, members in seeds.items():
        highest, its_index = -1, 0
        for seed, index in members:
            number = spread ^ seed  # then `mix`, inlined
            number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
            number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
            number ^= number >> 31
            if number > highest:
                highest, its_index = number, index
        score = log((highest + 0.5) * 2.0**-64) / weight
        if score > best:
            winner, best = its_index, score
    return winner


def mix(number: int) -> int:
    """Return 64 bits, each of which depends on all bits of the number: the finalizer of SplitMix64.

    To change it would move slots to other destinations.
    """
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


def header_bytes(value: Value | None) -> bytes:
    """Return the bytes of a header to hash: strings as they are, other values as text, whatever type an integer has."""
    if value is None:
        return b""
    return value[1] if isinstance(value[1], bytes) else term_of(value).encode()


def hashed_header(arguments: Table) -> str | None:
    """Return the name of the header to hash, or None. Raises PreconditionFailed if it is no valid name."""
    for key in HEADER:
        value = arguments.get(key)
        if value is None:
            continue
        name = arguments.text(key)
        if name is None:
            raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{key}'")
        if not 0 < len(name.encode("utf-8", "surrogateescape")) <= SHORT_STRING:
            raise PreconditionFailed(f"invalid value for arg '{key}': a header's name has 1 to {SHORT_STRING} bytes")
        return name
    return None


def hashed_property(arguments: Table) -> Callable[[Properties], str | int | None] | None:
    """Return the getter of the property to hash, or None. Raises PreconditionFailed if it is not one of PROPERTIES."""
    value = arguments.get(PROPERTY)
    if value is None:
        return None
    getter = PROPERTIES.get(arguments.text(PROPERTY) or "")
    if getter is None:
        raise PreconditionFailed(f"Unsupported property: {text_of(value)}")
    return getter


def check_algorithm(arguments: Table) -> None:
    """Refuse an algorithm that LavinMQ does not have either, with 406."""
    value = arguments.get(ALGORITHM)
    if value is not None and (arguments.text(ALGORITHM) or "").lower() not in ALGORITHMS:
        raise PreconditionFailed(f"Unsupported algorithm: {text_of(value)}")
