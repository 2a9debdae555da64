"""Bindings, also those that every queue has to the default exchange."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from warren.broker.plugin import Binding, Exchange, Queue, VHost

from ...http.auth import VHOST
from ...http.responses import Response, done, missing, ok
from ..arguments import Arguments, table_of
from ..pagination import Listing, Turn
from ..request import Request
from ..router import Route
from ..views.binding import EMPTY, binding_view, implicit_binding, properties_key

NO_KEYS = (EMPTY, "null", "undefined")  # what tools write for that
BODY_LIMIT = 5_000  # octets, as RabbitMQ takes for a binding

Bound = tuple[VHost, Binding]


class Wish(msgspec.Struct):
    routing_key: str = ""
    arguments: Arguments = None


# Lists


def list_bindings(request: Request) -> Listing[Bound]:
    """Those in the virtual hosts that the user sees."""
    sources = [(vhost, source) for vhost in request.vhosts() for source in vhost.exchanges.values()]
    return listed_from(sources)


def list_of_queue(request: Request) -> Listing[Bound]:
    """Those that lead to a queue; none to one that there is not."""
    return listed_to(request, queue_of(request))


def list_of_source(request: Request) -> Listing[Bound]:
    """Those of which an exchange is the source; none of one that there is not."""
    exchange = exchange_of(request)
    vhost = request.vhost
    if vhost is None or exchange is None:
        return listed(())
    return listed_from([(vhost, exchange)])


def list_of_destination(request: Request) -> Listing[Bound]:
    """Those that lead to an exchange; none to one that there is not."""
    return listed_to(request, exchange_of(request))


def list_between(request: Request) -> Listing[Bound]:
    """Those from an exchange to a queue, or to another exchange; none if there is not one of them."""
    to_queue = "queue" in request.path
    source = exchange_of(request, "exchange" if to_queue else "source")
    destination = queue_of(request) if to_queue else exchange_of(request, "destination")
    vhost = request.vhost
    if vhost is None or source is None or destination is None:
        return listed(())
    return listed_of(vhost, between(source, destination))


def listed_to(request: Request, destination: Queue | Exchange | None) -> Listing[Bound]:
    vhost = request.vhost
    if vhost is None or destination is None:
        return listed(())
    return listed_of(vhost, incoming(destination))


def queue_of(request: Request) -> Queue | None:
    vhost = request.vhost
    return vhost.queues.get(request.path["queue"]) if vhost is not None else None


def exchange_of(request: Request, name: str = "exchange") -> Exchange | None:
    vhost = request.vhost
    return vhost.exchanges.get(request.exchange_name(name)) if vhost is not None else None


def listed(bindings: Iterable[Bound]) -> Listing[Bound]:
    return Listing(bindings, lambda one: binding_view(*one), order=place)


def listed_of(vhost: VHost, bindings: Iterable[Binding]) -> Listing[Bound]:
    copied = list(bindings)
    return listed((vhost, binding) for binding in copied)


def listed_from(sources: list[tuple[VHost, Exchange]]) -> Listing[Bound]:
    """All of which one of these exchanges is the source."""

    def bound() -> Iterator[Bound]:
        # One source after the other: the collector looks through a copy once or twice, and through all in one turn.
        for vhost, source in sources:
            if source.name == "":
                for queue in list(vhost.queues.values()):
                    yield vhost, implicit_binding(queue)
            for binding in list(source.outgoing.values()):
                yield vhost, binding

    return listed(bound())


def place(one: Bound) -> tuple[str, str, str, str, str, str]:
    vhost, binding = one
    destination = binding.destination
    key = properties_key(binding) if len(binding.arguments) else ""
    return vhost.name, binding.source, destination.kind, destination.name, binding.routing_key, key


# One of them


async def get_binding(request: Request) -> Response:
    """One binding."""
    return ok(binding_view(request.path_vhost(), await find_binding(request)))


def post_binding(request: Request) -> Response:
    """Bind; the header Location tells under which key."""
    body: Wish = request.body
    table = table_of(body.arguments)
    kind, source_name, name = names(request)
    request.channel().bind(source_name, kind, name, body.routing_key, table)
    source, destination = ends(request)
    key = properties_key(Binding(source.name, destination, body.routing_key, table))
    location = f"{quoted(destination.name)}/{quoted(key)}"
    return Response(201, None, {"location": location})


async def delete_binding(request: Request) -> Response:
    """Unbind."""
    binding = await find_binding(request)
    with request.acting():
        _, destination = ends(request)
        key, arguments = binding.routing_key, binding.arguments
        request.channel().unbind(binding.source, destination.kind, destination.name, key, arguments)
    return done()


def names(request: Request) -> tuple[str, str, str]:
    """Return the kind of what is bound, queue or exchange; the exchange that it is bound to; and its name."""
    if "queue" in request.path:
        return "queue", request.exchange_name(), request.path["queue"]
    return "exchange", request.exchange_name("source"), request.exchange_name("destination")


def ends(request: Request) -> tuple[Exchange, Queue | Exchange]:
    """Raises Refusal (404)."""
    if "queue" in request.path:
        return request.exchange(), request.queue()
    return request.exchange("source"), request.exchange("destination")


async def find_binding(request: Request) -> Binding:
    """Find the binding that the path names by its key, which may be quoted once more or once less.

    Raises HTTPError (404). Keys of very many bindings are made in slices.
    """
    asked = request.path["props"]
    source, destination = ends(request)
    candidates = list(incoming(destination))
    turn = Turn()
    for wanted in dict.fromkeys((asked, EMPTY if asked in NO_KEYS else asked)):
        for binding in candidates:
            if turn.is_over():
                await turn.next()
            if binding.source != source.name:
                continue
            key = properties_key(binding)
            if wanted in (key, unquote(key, errors="surrogateescape"), unquote_plus(key, errors="surrogateescape")):
                return binding
    raise missing()


# What there is


def incoming(destination: Queue | Exchange) -> Iterator[Binding]:
    if isinstance(destination, Queue):
        yield implicit_binding(destination)
    yield from destination.incoming.values()


def between(source: Exchange, destination: Queue | Exchange) -> list[Binding]:
    return [binding for binding in incoming(destination) if binding.source == source.name]


def quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")


OF_EXCHANGE = "/exchanges/{vhost}/{exchange}/bindings"
TO_QUEUE = "/bindings/{vhost}/e/{exchange}/q/{queue}"
TO_EXCHANGE = "/bindings/{vhost}/e/{source}/e/{destination}"

ROUTES = (
    Route("GET", "/bindings", VHOST, list_bindings),
    Route("GET", "/bindings/{vhost}", VHOST, list_bindings),
    Route("GET", "/queues/{vhost}/{queue}/bindings", VHOST, list_of_queue, vhost_required=False),
    Route("GET", "/exchanges/{vhost}/{exchange}/bindings/source", VHOST, list_of_source, vhost_required=False),
    Route(
        "GET", "/exchanges/{vhost}/{exchange}/bindings/destination", VHOST, list_of_destination, vhost_required=False
    ),
    Route("GET", TO_QUEUE, VHOST, list_between, vhost_required=False),
    Route("GET", TO_EXCHANGE, VHOST, list_between, vhost_required=False),
    Route("POST", TO_QUEUE, VHOST, post_binding, Wish, BODY_LIMIT),
    Route("POST", TO_EXCHANGE, VHOST, post_binding, Wish, BODY_LIMIT),
    Route("GET", TO_QUEUE + "/{props}", VHOST, get_binding),
    Route("GET", TO_EXCHANGE + "/{props}", VHOST, get_binding),
    Route("DELETE", TO_QUEUE + "/{props}", VHOST, delete_binding),
    Route("DELETE", TO_EXCHANGE + "/{props}", VHOST, delete_binding),
)
