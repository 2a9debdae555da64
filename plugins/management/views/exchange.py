"""The view of an exchange."""

from __future__ import annotations

from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.telemetry.event_exchange import INTERNAL
from warren.broker.plugin import Exchange, Host

from ..framework.pagination import Item
from ..stats.counters import exchange_counters, exchange_key
from .detailed_rates import of_exchange
from .lists import Lists
from .stats import StatsView


def exchange_view(stats: StatsView, exchange: Exchange) -> Item:
    """The fields of an exchange."""
    item: Item = {
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
