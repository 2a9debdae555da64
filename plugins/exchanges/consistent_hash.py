"""The exchange type x-consistent-hash: a hash of the message selects one destination, in proportion to weights.

The binding key is the weight, from 1 to 10000. The hash is that of the routing key or, if the exchange's arguments ask
for it, of a header (`hash-header`, or LavinMQ's `x-hash-on`) or a property (`hash-property`).

The hash modulo SLOTS is a slot, and weighted rendezvous hashing assigns each slot to one destination: every destination
gets a score for the slot, and the highest score wins. So a new destination takes its share of slots from all others, a
deleted one leaves its slots to all others, and no other slot moves. A score depends only on the slot and the name of
the destination, not on the order of bindings, a restart or the machine.

Assigning a slot costs one score for each destination; the result is kept until the bindings change, in a dict for the
first SLOTS_IN_DICT slots and then in an array for all. So an exchange has at most about 128 bytes for each slot in use.
Since slots are assigned by chance, a share of s slots deviates by about 1/sqrt(s) of itself: 0.6 % for each of 10 equal
queues, 6 % for each of 1,000.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterator
from itertools import islice
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
ALGORITHMS: Final = ("ring", "jump")  # LavinMQ's; clients cannot rely on their different destinations
INTEGER: Final = re.compile("[+-]?[0-9]+")
WEIGHT_LIMIT: Final = 10_000
SLOTS: Final = 1 << 18  # a megabyte in an array
SLOTS_IN_DICT: Final = 1 << 13  # about half a megabyte
ARRAY_COST: Final = 500  # the cost of moving them to an array
MASK: Final = (1 << 64) - 1
TEXT_SHIFT: Final = 4  # to format and hash 16 bytes of a header costs 1
SCORES, SCORES_SHIFT = 400, 1  # scores of one step; 2 of them cost 1
FEW_SHARES: Final = 100  # shares of any weights, whose scores are always one step


class _Share:
    """A destination, its number in the exchange, and the weights of its bindings, of which the oldest counts.

    `weights` is ordered if there are several, so that the oldest of very many is found at once.
    """

    __slots__ = ("destination", "number", "seed", "weights")

    def __init__(self, destination: Destination, number: int) -> None:
        self.destination = destination
        self.number = number
        name = f"{destination.kind}\0{destination.name}"
        self.seed = stable_hash(name.encode("utf-8", "surrogateescape"))
        self.weights: dict[Binding, int] = {}

    @property
    def weight(self) -> int:
        return next(iter(self.weights.values()))


_Seeds = dict[int, dict[_Share, int]]
"""The shares of each weight, with their seeds."""


class ConsistentHashExchange(ExchangeType):
    """A consistent hash exchange. It `routes_by_key_only` unless it hashes a header or a property."""

    description = "Consistent Hashing Exchange"

    __slots__ = (
        "routes_by_key_only",
        "_header",
        "_property",
        "_shares",
        "_destinations",
        "_last_number",
        "_seeds",
        "_owners",
    )

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._header = hashed_header(arguments)
        self._property = hashed_property(arguments)
        if self._header is not None and self._property is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        check_algorithm(arguments)
        self.routes_by_key_only = self._header is None and self._property is None
        self._shares: dict[Destination, _Share] = {}
        self._destinations: dict[int, Destination] = {}  # by the number of the share
        self._last_number = 0
        self._seeds: _Seeds = {}
        self._owners: defaultdict[int, int] | array[int] = defaultdict(int)  # by slot, the number; 0 if not assigned

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        """Refuse a binding key that is no weight with 406."""
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
        if share is not None:
            if len(share.weights) == 1:
                share.weights = OrderedDict(share.weights)
            share.weights[binding] = int(binding.routing_key)
            return []
        self._last_number += 1
        share = self._shares[binding.destination] = _Share(binding.destination, self._last_number)
        share.weights[binding] = int(binding.routing_key)
        self._destinations[share.number] = share.destination
        self._add(share)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        share = self._shares[binding.destination]
        weight = share.weight
        del share.weights[binding]
        if share.weights and share.weight == weight:
            return []
        del self._seeds[weight][share]
        if not self._seeds[weight]:
            del self._seeds[weight]
        if share.weights:
            self._add(share)
        else:
            del self._shares[share.destination], self._destinations[share.number]
            self._owners = defaultdict(int)
        return []

    def release(self) -> Iterator[int]:
        self._seeds.clear()
        while self._shares:
            _, share = self._shares.popitem()
            self._destinations.pop(share.number)
            while share.weights:
                share.weights.popitem()
                yield 1

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        """Add one destination. Of the keys only the routing key counts, not CC and BCC."""
        if not self._shares:
            return
        owners = self._owners
        hashed, cost = self._hash_input(keys[0], message)
        slot = stable_hash(hashed) % SLOTS
        owner = owners[slot]
        if owner:
            found[self._destinations[owner]] = None
        else:
            seeds = self._seeds
            if len(self._shares) > FEW_SHARES:  # bindings may change between two steps
                seeds = {weight: shares.copy() for weight, shares in seeds.items()}
            share = yield from highest_score(seeds, slot)
            found[share.destination] = None
            if self._owners is owners:  # no binding has changed
                owners[slot] = share.number
                yield self._make_array()
        yield cost

    def _add(self, share: _Share) -> None:
        """Add a share to its weight. No slot is assigned any more."""
        self._seeds.setdefault(share.weight, {})[share] = share.seed
        self._owners = defaultdict(int)

    def _make_array(self) -> int:
        """Move the assigned slots to an array if they are many; return the cost."""
        owners = self._owners
        if not isinstance(owners, dict) or len(owners) <= SLOTS_IN_DICT:
            return 0
        self._owners = array("I", bytes(4 * SLOTS))
        for slot, number in owners.items():
            self._owners[slot] = number
        return ARRAY_COST

    def _hash_input(self, routing_key: str, message: Message) -> tuple[bytes, int]:
        """Return the bytes of the message to hash, empty if the header or property is missing, and the cost."""
        if self._header is not None:
            headers = message.headers
            hashed = header_bytes(headers.get(self._header))
            return hashed, 1 + headers.read_cost + (len(hashed) >> TEXT_SHIFT)
        if self._property is None:
            return routing_key.encode("utf-8", "surrogateescape"), 1
        properties = message.properties
        value = self._property(properties)
        cost = properties.headers.read_cost if properties.headers is not None else 0
        return b"" if value is None else str(value).encode("utf-8", "surrogateescape"), 1 + cost


def highest_score(seeds: _Seeds, slot: int) -> Generator[int, None, _Share]:
    """Find the share with the highest score for a slot, in steps of SCORES. HOT: `make bench-hash`, unseen keys.

    A score is the negative time until the first event of a Poisson process with the rate `weight`: among such processes
    each is the first in proportion to its rate. Of equal weights, the highest random number has the highest score.
    """
    spread = mix(slot)
    best, winner = -inf, None
    cost = 0
    for weight, shares in seeds.items():
        highest, its_share = -1, None
        rest = iter(shares.items())
        for _ in range(0, len(shares), SCORES):
            if cost >= SCORES >> SCORES_SHIFT:
                yield cost
                cost = 0
            for share, seed in islice(rest, SCORES):
                number = spread ^ seed  # then `mix`, inlined
                number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
                number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
                number ^= number >> 31
                if number > highest:
                    highest, its_share = number, share
            cost += 1 + (min(len(shares), SCORES) >> SCORES_SHIFT)
        score = log((highest + 0.5) * 2.0**-64) / weight
        if score > best:
            best, winner = score, its_share
    yield cost
    assert winner is not None, "there are shares"
    return winner


def mix(number: int) -> int:
    """Return 64 bits, each of which depends on all bits of the number: the finalizer of SplitMix64.

    To change it would move slots to other destinations.
    """
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


def header_bytes(value: Value | None) -> bytes:
    """Return the bytes of a header to hash: strings unchanged, other values as text, integers of all types alike."""
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
    """Refuse an algorithm that LavinMQ does not have with 406."""
    value = arguments.get(ALGORITHM)
    if value is not None and (arguments.text(ALGORITHM) or "").lower() not in ALGORITHMS:
        raise PreconditionFailed(f"Unsupported algorithm: {text_of(value)}")
