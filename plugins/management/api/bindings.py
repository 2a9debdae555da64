"""Routes for bindings, including the binding of each queue to the default exchange."""

from collections.abc import Iterable, Iterator
from functools import partial
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import msgspec

from warren.broker.amqp.names import strip_line_ends
from warren.broker.amqp.table_json import json_of_table
from warren.broker.plugin import Binding, Exchange, Queue, Table, VHost, stable_hash

from ...http.auth import VHOST
from ...http.responses import Response, done, missing, ok
from ...http.time_slices import when
from ..framework.bodies import Arguments, table_of
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route

OF_EXCHANGE = "/exchanges/{vhost}/{exchange}/bindings"
TO_QUEUE = "/bindings/{vhost}/e/{exchange}/q/{queue}"
TO_EXCHANGE = "/bindings/{vhost}/e/{source}/e/{destination}"

EMPTY = "~"  # the key of a binding with neither routing key nor arguments
NO_KEYS = (EMPTY, "null", "undefined")  # which tools write for an empty key
BODY_LIMIT = 5_000  # bytes, RabbitMQ's limit for a binding

Bound = tuple[VHost, Binding]


class BindingBody(msgspec.Struct):
    routing_key: str = ""
    arguments: Arguments = None


class BindingView(msgspec.Struct):
    """A binding."""

    source: str
    vhost: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, object]
    properties_key: str


def binding_view(vhost: VHost, binding: Binding) -> BindingView:
    to, key, arguments = binding.destination, binding.routing_key, json_of_table(binding.arguments)
    return BindingView(binding.source, vhost.name, to.name, to.kind, key, arguments, properties_key(binding))


def implicit_binding(queue: Queue) -> Binding:
    """Return the binding of a queue to the default exchange."""
    return Binding("", queue, queue.name, Table.EMPTY)


def properties_key(binding: Binding) -> str:
    """Return the key of a binding between a source and a destination: routing key and a hash of the arguments."""
    key = quote_plus(binding.routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if not len(binding.arguments):
        return key or EMPTY
    return f"{key}~{stable_hash(binding.arguments.key()):016x}"


# Lists


@route("GET", VHOST, "/bindings", "/bindings/{vhost}")
def list_bindings(request: Request) -> Listing[BindingView]:
    """List the bindings in the virtual hosts that the user sees."""
    sources = [(vhost, source) for vhost in request.vhosts() for source in vhost.exchanges.values()]
    return listing_from(sources)


@route("GET", VHOST, "/queues/{vhost}/{queue}/bindings", f"{OF_EXCHANGE}/destination", vhost_required=False)
def list_of_destination(request: Request) -> Listing[BindingView]:
    """List the bindings with a queue or an exchange as destination; none if it does not exist."""
    vhost, destination = request.vhost, queue_of(request) if "queue" in request.path else exchange_of(request)
    if vhost is None or destination is None:
        return listing(())
    return listing_of(vhost, incoming(destination))


@route("GET", VHOST, f"{OF_EXCHANGE}/source", vhost_required=False)
def list_of_source(request: Request) -> Listing[BindingView]:
    """List the bindings with an exchange as source; none if it does not exist."""
    vhost, exchange = request.vhost, exchange_of(request)
    return listing_from([(vhost, exchange)] if vhost is not None and exchange is not None else [])


@route("GET", VHOST, TO_QUEUE, TO_EXCHANGE, vhost_required=False)
def list_between(request: Request) -> Listing[BindingView]:
    """List the bindings from an exchange to a queue or another exchange; none if one does not exist."""
    to_queue = "queue" in request.path
    source = exchange_of(request, "exchange" if to_queue else "source")
    destination = queue_of(request) if to_queue else exchange_of(request, "destination")
    vhost = request.vhost
    if vhost is None or source is None or destination is None:
        return listing(())
    return listing_of(vhost, between(source, destination))


def queue_of(request: Request) -> Queue | None:
    vhost = request.vhost
    return vhost.queues.get(request.path["queue"]) if vhost is not None else None


def exchange_of(request: Request, name: str = "exchange") -> Exchange | None:
    vhost = request.vhost
    return vhost.exchanges.get(request.exchange_name(name)) if vhost is not None else None


def listing(bindings: Iterable[Bound]) -> Listing[BindingView]:
    return Listing(bindings, lambda one: binding_view(*one), name_of, order=place)


def listing_of(vhost: VHost, bindings: Iterable[Binding]) -> Listing[BindingView]:
    copied = list(bindings)
    return listing((vhost, binding) for binding in copied)


def listing_from(sources: list[tuple[VHost, Exchange]]) -> Listing[BindingView]:
    """List all bindings with one of these exchanges as source."""

    def bound() -> Iterator[Bound]:
        # One source after the other: garbage collection traverses a list of all bindings in one turn.
        for vhost, source in sources:
            if source.name == "":
                for queue in list(vhost.queues.values()):
                    yield vhost, implicit_binding(queue)
            for binding in list(source.outgoing.values()):
                yield vhost, binding

    return listing(bound())


def name_of(one: Bound) -> str:
    """Return what pages filter by: the names of source and destination, and the routing key."""
    _, binding = one
    return f"{binding.source} {binding.destination.name} {binding.routing_key}"


def place(one: Bound) -> tuple[str, str, str, str, str, str]:
    vhost, binding = one
    destination = binding.destination
    key = properties_key(binding) if len(binding.arguments) else ""
    return vhost.name, binding.source, destination.kind, destination.name, binding.routing_key, key


# A single binding


@route("GET", VHOST, TO_QUEUE + "/{props}", TO_EXCHANGE + "/{props}")
async def get_binding(request: Request) -> Response[BindingView]:
    """Return one binding."""
    return ok(binding_view(request.path_vhost(), await find_binding(request)))


@route("POST", VHOST, TO_QUEUE, TO_EXCHANGE, body_limit=BODY_LIMIT)
async def post_binding(request: Request, body: BindingBody) -> Response[None]:
    """Create a binding; the header Location has its properties key."""
    table = table_of(body.arguments)
    kind, source, name = names(request)
    with request.acting():
        request.channel().bind(source, kind, name, body.routing_key, table)
        vhost = request.path_vhost()
        destination = vhost.queue(name) if kind == Queue.kind else vhost.exchange(name)
        key = properties_key(Binding(source, destination, body.routing_key, table))
    await request.complete(emitted(vhost, source))
    location = f"{quoted(destination.name)}/{quoted(key)}"
    return Response(201, None, {"location": location})


@route("DELETE", VHOST, TO_QUEUE + "/{props}", TO_EXCHANGE + "/{props}")
async def delete_binding(request: Request) -> Response[None]:
    """Delete a binding."""
    binding = await find_binding(request)
    with request.acting():
        _, destination = source_and_destination(request)
        key, arguments = binding.routing_key, binding.arguments
        request.channel().unbind(binding.source, destination.kind, destination.name, key, arguments)
    vhost = request.path_vhost()
    await request.complete(emitted(vhost, binding.source))
    await request.complete(unbound(vhost, Exchange.kind, binding.source))
    return done()


async def emitted(vhost: VHost, source: str) -> None:
    """Return once all messages are enqueued that the type of an exchange has emitted, for example for a new binding."""
    emissions = vhost.emissions_of(source)
    if emissions is not None:
        await when(emissions.when_enqueued)


async def unbound(vhost: VHost, kind: str, name: str) -> None:
    """Return once no bindings are left of a deleted queue or exchange (`kind`) of this name."""
    if (kind, name) in vhost.unbinding_jobs:
        await when(partial(vhost.when_unbound, kind, name))


def names(request: Request) -> tuple[str, str, str]:
    """Return the type of the destination, the source's name and the destination's name, both without line ends."""
    if "queue" in request.path:
        kind, source, name = Queue.kind, request.exchange_name(), request.path["queue"]
    else:
        kind, source, name = Exchange.kind, request.exchange_name("source"), request.exchange_name("destination")
    return kind, strip_line_ends(source), strip_line_ends(name)


def source_and_destination(request: Request) -> tuple[Exchange, Queue | Exchange]:
    """Return source and destination. Raises HTTPError (404)."""
    if "queue" in request.path:
        return request.exchange(), request.queue()
    return request.exchange("source"), request.exchange("destination")


async def find_binding(request: Request) -> Binding:
    """Return the binding with the key in the path, which clients may have quoted twice or not at all.

    Raises HTTPError (404). Keys of very many bindings are made in slices.
    """
    asked = request.path["props"]
    source, destination = source_and_destination(request)
    candidates = list(incoming(destination))
    for wanted in dict.fromkeys((asked, EMPTY if asked in NO_KEYS else asked)):
        async for binding in request.in_slices(candidates):
            if binding.source != source.name:
                continue
            key = properties_key(binding)
            if wanted in spellings(key):
                return binding
    raise missing()


def spellings(key: str) -> tuple[str, ...]:
    """Return the spellings of a key by clients: unchanged, with a space in place of each `+`, and not quoted."""
    decoded = (decode(key, errors="surrogateescape") for decode in (unquote, unquote_plus))
    return key, key.replace("+", " "), *decoded


# Lookups


def incoming(destination: Queue | Exchange) -> Iterator[Binding]:
    if isinstance(destination, Queue):
        yield implicit_binding(destination)
    yield from destination.incoming.values()


def between(source: Exchange, destination: Queue | Exchange) -> list[Binding]:
    return [binding for binding in incoming(destination) if binding.source == source.name]


def quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")
