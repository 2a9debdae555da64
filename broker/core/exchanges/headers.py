"""The headers exchange: the arguments of a binding are the headers that a message must have.

Bindings are indexed by name and value of a header, so a publish looks only at bindings that share a header with the
message. A binding that matches any of its headers is indexed under each, which needs no comparison; one that matches
all, under the header that was the rarest in the index when it was bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...amqp import properties
from ...amqp.errors import PreconditionFailed
from ...amqp.federation_headers import BOUND_FROM
from ...amqp.field_table import FLOATS, INTEGERS, STRINGS, Table, Value, equal_header, term_of, type_name
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from .bound_destinations import Destinations
from .exchange_type import DESTINATIONS_SHIFT, STEP_COST, Emission, ExchangeType

X_MATCH = "x-match"
MODES = ("all", "any", "all-with-x", "any-with-x")
COMPARED_SHIFT = 2  # to compare 4 headers costs 1


_Term = tuple[str, str, object]
"""The name of a header, a class of types whose values may be equal, and the value."""


class _Wanted:
    """The headers that one binding matches, any or all of them. `terms` are its terms in the index."""

    __slots__ = ("any", "destination", "headers", "terms")

    def __init__(self, binding: Binding) -> None:
        mode = match_mode(binding.arguments)
        with_x = mode.endswith("-with-x")
        self.destination = binding.destination
        self.any = mode.startswith("any")
        self.headers = [
            (key, value)
            for key, value in binding.arguments.items()
            if key not in (X_MATCH, BOUND_FROM) and (with_x or not key.startswith("x-"))
        ]
        self.terms: list[_Term] = []

    def matches(self, sent: Table) -> bool:
        """Return whether these headers match each of the wanted ones."""
        for key, wanted in self.headers:
            value = sent.get(key)
            if value is None or not equal_header(wanted, value):
                return False
        return True


class HeadersExchange(ExchangeType):
    description = "AMQP headers exchange, as per the AMQP specification"

    __slots__ = ("_all", "_any", "_bound", "_unconditional")

    routes_by_key_only = False

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._bound: dict[_Identity, _Wanted] = {}
        self._any: dict[_Term, Destinations] = {}
        self._all: dict[_Term, dict[_Identity, _Wanted]] = {}
        self._unconditional = Destinations()  # of bindings without headers that match all

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        match_mode(arguments)

    def on_bind(self, binding: Binding) -> list[Emission]:
        identity, wanted = _identity(binding), _Wanted(binding)
        self._bound[identity] = wanted
        terms = [_term(key, value) for key, value in wanted.headers]
        if wanted.any:
            wanted.terms = list(dict.fromkeys(terms))
            for term in wanted.terms:
                self._any.setdefault(term, Destinations()).add(wanted.destination)
        elif terms:
            rarest = min(terms, key=lambda term: len(self._all.get(term, ())))
            wanted.terms = [rarest]
            self._all.setdefault(rarest, {})[identity] = wanted
        else:
            self._unconditional.add(wanted.destination)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        identity = _identity(binding)
        wanted = self._bound.pop(identity)
        if not wanted.any and not wanted.terms:
            self._unconditional.remove(wanted.destination)
        for term in wanted.terms:
            if wanted.any:
                self._any[term].remove(wanted.destination)
                if not self._any[term]:
                    del self._any[term]
            else:
                del self._all[term][identity]
                if not self._all[term]:
                    del self._all[term]
        return []

    def release(self) -> Iterator[int]:
        while self._any:
            self._any.popitem()
            yield 1
        while self._all:
            same_term = self._all.popitem()[1]
            while same_term:
                same_term.popitem()
                yield 1
        while self._bound:
            yield len(self._bound.popitem()[1].headers)

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        found.update(dict.fromkeys(self._unconditional.all()))
        cost = len(found) >> DESTINATIONS_SHIFT
        sent = properties.headers(message.property_bytes) if self._any or self._all else None
        if sent is None:
            yield cost
            return
        fields = dict(reversed(sent.items()))  # the first of those with the same name
        cost += sent.read_cost
        for key, value in fields.items():
            for term in _terms_sent(key, value):
                bound = self._any.get(term)
                if bound is not None:
                    some = bound.all()
                    found.update(dict.fromkeys(some))
                    cost += 1 + (len(some) >> DESTINATIONS_SHIFT)
                for wanted in list(self._all.get(term, {}).values()):
                    if wanted.matches(sent):
                        found[wanted.destination] = None
                    cost += 1 + (len(wanted.headers) >> COMPARED_SHIFT)
                    if cost >= STEP_COST:
                        yield cost
                        cost = 0
                if cost >= STEP_COST:
                    yield cost
                    cost = 0
        yield cost


def match_mode(arguments: Table) -> str:
    """Return the x-match mode of a binding, `all` by default. Raises PreconditionFailed (406) for any other value."""
    value: Value | None = arguments.get(X_MATCH)
    if value is None:
        return "all"
    mode = arguments.text(X_MATCH)
    if mode is None:
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(value)} (value {term_of(value)}); expected longstr"
        )
    if mode not in MODES:
        raise PreconditionFailed(
            f"Invalid x-match field value {term_of(value)}; expected all, any, all-with-x, or any-with-x"
        )
    return mode


def _term(key: str, bound: Value) -> _Term:
    """Return the index term of a header that a binding matches."""
    letter, content = bound
    if letter == "V":
        return key, "V", None
    if letter == "T":
        return key, "T", content
    return key, _class(letter), _hashable(content)


def _terms_sent(key: str, sent: Value) -> list[_Term]:
    """Return the index terms of all headers in bindings that this header satisfies (`equal_header`)."""
    letter, content = sent
    terms: list[_Term] = [(key, "V", None)]
    if letter == "T" or letter in INTEGERS:
        terms.append((key, "T", content))
    if letter != "T":
        terms.append((key, _class(letter), _hashable(content)))
    return terms


def _class(letter: str) -> str:
    """Return one letter for all types whose values may be equal."""
    return "I" if letter in INTEGERS else "S" if letter in STRINGS else "d" if letter in FLOATS else letter


def _hashable(content: object) -> object:
    if not isinstance(content, list):
        return content
    return tuple([(letter, _hashable(each)) for letter, each in content])


_Identity = tuple[Destination, str, bytes]


def _identity(binding: Binding) -> _Identity:
    """Return the identity of a binding within its exchange."""
    return binding.destination, binding.routing_key, binding.arguments.key()
