"""Routes for exchanges."""

from functools import partial

import msgspec

from warren.broker.amqp.names import strip_line_ends
from warren.broker.plugin import Exchange

from ...http.auth import VHOST
from ...http.responses import Response, done, put
from ..framework.bodies import Arguments, table_of
from ..framework.pagination import Listing, with_lists
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import object_key
from ..views.detailed_rates import of_exchange
from ..views.exchange import ExchangeView, exchange_view
from ..views.stats import RequestStats
from .bindings import unbound


class Declaration(msgspec.Struct):
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
