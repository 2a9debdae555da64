"""The view of an exchange."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.telemetry.event_exchange import INTERNAL
from warren.broker.plugin import Exchange, Host

from ..framework.pagination import Lists
from ..stats.counters import exchange_counters, exchange_key
from ..stats.rates import Counted
from .detailed_rates import RatesView, of_exchange
from .stats import StatsView


class ExchangeView(TypedDict):
    """An exchange; a single one has detailed rates."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, object]
    user_who_performed_action: str
    policy: NotRequired[str]
    message_stats: NotRequired[Counted]
    incoming: NotRequired[list[RatesView]]
    outgoing: NotRequired[list[RatesView]]


def exchange_view(stats: StatsView, exchange: Exchange) -> ExchangeView:
    item: ExchangeView = {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_of_table(exchange.arguments),
        "user_who_performed_action": exchange.declared_by or INTERNAL,
    }
    if exchange.policy is not None:
        item["policy"] = exchange.policy.name
    if stats.enabled:
        item |= stats.message_stats("exchange", exchange_key(exchange), exchange_counters(exchange))
    return item


def lists_of_exchange(host: Host, stats: StatsView, exchange: Exchange) -> Lists:
    """The lists of a single exchange: detailed rates."""
    return of_exchange(host, stats, exchange) if stats.enabled else {}
