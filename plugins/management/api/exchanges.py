"""Exchanges."""

from __future__ import annotations

import msgspec

from warren.broker.plugin import Exchange, json_of_table

from ..arguments import Arguments, table_of
from ..auth import VHOST
from ..pagination import Item, Listing
from ..request import Request
from ..responses import Response, done, found, put
from ..router import Route
from ..stats.counters import exchange_counters, exchange_key
from ..views.detailed_rates import of_exchange
from ..views.stats import StatsView


class Declaration(msgspec.Struct):
    type: str = "direct"
    durable: bool = False  # as the method has it
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = None


def list_exchanges(request: Request) -> Listing[Exchange]:
    """Those in the virtual hosts that the user sees; the default exchange comes first in each."""
    figures = StatsView(request)
    exchanges = [exchange for vhost in request.vhosts() for exchange in vhost.exchanges.values()]
    return Listing(
        exchanges, lambda exchange: described(figures, exchange), lambda exchange: exchange.name, exchange_key
    )


def get_exchange(request: Request) -> Response:
    """One exchange."""
    figures = StatsView(request)
    exchange = request.exchange()
    item = described(figures, exchange)
    return found(item | of_exchange(request.host, figures, exchange) if figures.told else item)


def put_exchange(request: Request) -> Response:
    """Declare it, or find it the same."""
    body: Declaration = request.body
    name = request.exchange_name()
    existed = name in request.here().exchanges
    request.channel().declare_exchange(
        name, body.type, body.durable, body.auto_delete, body.internal, table_of(body.arguments)
    )
    return put(existed)


def delete_exchange(request: Request) -> Response:
    """Delete it, if it is unused where that is asked for."""
    request.channel().delete_exchange(request.exchange().name, request.flag("if-unused"))
    return done()


def described(figures: StatsView, exchange: Exchange) -> Item:
    item: Item = {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_of_table(exchange.arguments),
    }
    if exchange.policy is not None:
        item["policy"] = exchange.policy.name
    if figures.told:
        item |= figures.message_stats("exchange", exchange_key(exchange), exchange_counters(exchange))
    return item


ROUTES = (
    Route("GET", "/exchanges", VHOST, list_exchanges),
    Route("GET", "/exchanges/{vhost}", VHOST, list_exchanges),
    Route("GET", "/exchanges/{vhost}/{exchange}", VHOST, get_exchange),
    Route("PUT", "/exchanges/{vhost}/{exchange}", VHOST, put_exchange, Declaration),
    Route("DELETE", "/exchanges/{vhost}/{exchange}", VHOST, delete_exchange),
)
