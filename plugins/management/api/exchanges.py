"""Routes for exchanges."""

from functools import partial

from msgspec import UNSET, Struct, UnsetType

from warren.broker.amqp.names import strip_line_ends
from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.telemetry.event_exchange import INTERNAL
from warren.broker.plugin import Exchange

from ...http.auth import VHOST
from ...http.responses import Response, done, put
from ..framework.bodies import Arguments, table_of
from ..framework.pagination import Listing, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import exchange_counters, object_key
from ..stats.rates import Counted
from ..views.detailed_rates import RatesView, of_exchange
from ..views.stats import RequestStats
from .bindings import unbound


class ExchangeView(Struct):
    """An exchange; a single one has detailed rates."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, object]
    user_who_performed_action: str
    policy: str | UnsetType = UNSET
    message_stats: Counted | UnsetType = UNSET
    incoming: list[RatesView] | UnsetType = UNSET
    outgoing: list[RatesView] | UnsetType = UNSET


def exchange_view(stats: RequestStats, exchange: Exchange) -> ExchangeView:
    flags = exchange.durable, exchange.auto_delete, exchange.internal
    arguments, declared_by = json_of_table(exchange.arguments), exchange.declared_by or INTERNAL
    view = ExchangeView(exchange.name, exchange.vhost, exchange.type_name, *flags, arguments, declared_by)
    if exchange.policy is not None:
        view.policy = exchange.policy.name
    if stats.enabled:
        counters = stats.message_stats("exchange", object_key(exchange), exchange_counters(exchange))
        view.message_stats = counters.get("message_stats", UNSET)
    return view


class Declaration(Struct):
    type: str = "direct"
    durable: bool = False  # the default of exchange.declare
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = None


@route("GET", VHOST, "/exchanges", "/exchanges/{vhost}")
def list_exchanges(request: Request) -> Listing[ExchangeView]:
    """List the exchanges in the virtual hosts that the user sees, the default exchange first in each."""
    stats = RequestStats(request)
    exchanges = [exchange for vhost in request.vhosts() for exchange in vhost.exchanges.values()]
    return Listing(exchanges, partial(exchange_view, stats), lambda exchange: exchange.name, object_key)


@route("GET", VHOST, "/exchanges/{vhost}/{exchange}")
async def get_exchange(request: Request) -> Response[ExchangeView]:
    """Return one exchange."""
    stats, exchange = RequestStats(request), request.exchange()
    lists = of_exchange(request.host, stats, exchange) if stats.enabled else {}
    return await with_lists(request, exchange_view(stats, exchange), lists)


@route("PUT", VHOST, "/exchanges/{vhost}/{exchange}")
async def put_exchange(request: Request, body: Declaration) -> Response[None]:
    """Declare an exchange."""
    name = strip_line_ends(request.exchange_name())
    await request.wait(unbound(request.path_vhost(), Exchange.kind, name))
    with request.acting():
        existed = name in request.path_vhost().exchanges
        flags = {"durable": body.durable, "auto_delete": body.auto_delete, "internal": body.internal}
        request.channel().declare_exchange(name, body.type, **flags, arguments=table_of(body.arguments))
    return put(existed)


@route("DELETE", VHOST, "/exchanges/{vhost}/{exchange}")
async def delete_exchange(request: Request) -> Response[None]:
    """Delete an exchange; with `if-unused` only if it is unused."""
    name, vhost = request.exchange().name, request.path_vhost()
    with request.acting():
        request.channel().delete_exchange(name, if_unused=request.flag("if-unused"))
    await request.complete(unbound(vhost, Exchange.kind, name))
    return done()
