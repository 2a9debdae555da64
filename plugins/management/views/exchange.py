"""The view of an exchange."""

from msgspec import UNSET, Struct, UnsetType

from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.telemetry.event_exchange import INTERNAL
from warren.broker.plugin import Exchange

from ..stats.counters import exchange_counters, object_key
from ..stats.rates import Counted
from .detailed_rates import RatesView
from .stats import RequestStats


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
