"""The headers exchange: the arguments of a binding are the headers that a message must have.

Bindings are indexed by name and value of a header, so a publish looks only at bindings that share a header with the
message. A binding that matches any of its headers is indexed under each, which needs no comparison; one that matches
all, under the header that was the rarest in the index when it was bound. Equal headers of bindings are one object, so
that long values are compared once for a message and not once for each binding.
"""

from collections.abc import Iterator

from ...amqp import properties
from ...amqp.errors import PreconditionFailed
from ...amqp.federation_headers import BOUND_FROM
from ...amqp.field_table import FLOATS, INTEGERS, STRINGS, Table, Value, term_of, type_name
from ..messages.binding import Binding, Destination, Destinations
from ..messages.message import Message
from .exchange_context import Emission
from .exchange_type import STEP_COST, ExchangeType, add_all

X_MATCH = "x-match"
MODES = ("all", "any", "all-with-x", "any-with-x")
COMPARED_SHIFT = 2  # to compare 4 headers costs 1


_Term = tuple[str, str, object]
"""The name of a header, a class of types whose values may be equal, and the value."""

RELEASED: _Term = ("", "", None)


class _Header:
    """A header that bindings match, and the bindings that are found by it."""

    __slots__ = ("all", "any", "bindings", "term")

    def __init__(self, term: _Term) -> None:
        self.term = term  # by which it is found itself
        self.any: Destinations | None = None  # the destinations of those that match any of their headers
        self.all: dict[_Identity, _Wanted] | None = None  # those that match all of theirs, of which it was the rarest
        self.bindings = 0  # the number of all bindings that match it


class _Wanted:
    """The headers that one binding matches, any or all of them; all are `found_by` one of them."""

    __slots__ = ("any", "destination", "found_by", "headers")

    def __init__(self, destination: Destination, any_: bool, headers: tuple[_Header, ...]) -> None:
        self.destination = destination
        self.any = any_
        self.headers = headers
        self.found_by: _Header | None = None

    def matches(self, sent: set[_Header]) -> bool:
        """Return whether these headers of a message match each of the wanted ones."""
        return sent.issuperset(self.headers)


class HeadersExchange(ExchangeType):
    description = "AMQP headers exchange, as per the AMQP specification"

    __slots__ = ("_bound", "_headers", "_unconditional")

    routes_by_key_only = False

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._bound: dict[_Identity, _Wanted] = {}
        self._headers: dict[_Term, _Header] = {}
        self._unconditional = Destinations()  # of bindings without headers that match all

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        match_mode(arguments)

    def on_bind(self, binding: Binding) -> list[Emission]:
        arguments = binding.arguments
        mode = match_mode(arguments)
        with_x = mode.endswith("-with-x")
        terms = [
            _term(key, value)
            for key, value in arguments.items()
            if key not in (X_MATCH, BOUND_FROM) and (with_x or not key.startswith("x-"))
        ]
        headers = tuple([self._header(term) for term in dict.fromkeys(terms)])
        identity, wanted = _identity(binding), _Wanted(binding.destination, mode.startswith("any"), headers)
        self._bound[identity] = wanted
        for header in headers:
            header.bindings += 1
        if wanted.any:
            for header in headers:
                if header.any is None:
                    header.any = Destinations()
                header.any.add(wanted.destination)
        elif headers:
            rarest = wanted.found_by = min(headers, key=lambda header: len(header.all or ()))
            if rarest.all is None:
                rarest.all = {}
            rarest.all[identity] = wanted
        else:
            self._unconditional.add(wanted.destination)
        return []

    def _header(self, term: _Term) -> _Header:
        header = self._headers.get(term)
        if header is None:
            header = self._headers[term] = _Header(term)
        return header

    def on_unbind(self, binding: Binding) -> list[Emission]:
        identity = _identity(binding)
        wanted = self._bound.pop(identity)
        if not wanted.any and not wanted.headers:
            self._unconditional.remove(wanted.destination)
        if wanted.found_by is not None and wanted.found_by.all is not None:
            del wanted.found_by.all[identity]
        for header in wanted.headers:
            if wanted.any and header.any is not None:
                header.any.remove(wanted.destination)
            header.bindings -= 1
            if not header.bindings:
                del self._headers[header.term]
        return []

    def release(self) -> Iterator[int]:
        while self._headers:
            header = self._headers.popitem()[1]
            yield 1 + _values(header.term[2])
            header.term = RELEASED  # bindings still have the header
            while header.all:
                header.all.popitem()
                yield 1
        while self._bound:
            yield len(self._bound.popitem()[1].headers)

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        cost = 0
        if self._unconditional:
            cost = yield from add_all(self._unconditional.all(), found, cost)
        fields = properties.headers(message.property_bytes) if self._headers else None
        if fields is None:
            yield cost
            return
        cost += fields.read_cost
        found_by: list[_Header] = []
        for key, value in dict(reversed(fields.items())).items():  # the first of those with the same name
            for term in _terms_sent(key, value):
                header = self._headers.get(term)
                if header is not None:
                    found_by.append(header)
        sent = set(found_by)
        for header in found_by:
            if header.any is not None:
                cost = yield from add_all(header.any.all(), found, cost + 1)
            for wanted in list(header.all.values()) if header.all is not None else ():
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
    """Return the index terms of all headers in bindings that this header satisfies.

    V in a binding matches any value. A timestamp in a binding matches an equal timestamp or integer, as in RabbitMQ; an
    integer in a binding matches no timestamp.
    """
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


def _values(content: object) -> int:
    """Return the number of values in the arrays of a term and of their type letters."""
    if not isinstance(content, tuple):
        return 0
    return len(content) + sum([_values(part) for part in content])


_Identity = tuple[Destination, str, bytes]


def _identity(binding: Binding) -> _Identity:
    """Return the identity of a binding within its exchange."""
    return binding.destination, binding.routing_key, binding.arguments.key()
