"""Metrics of exchanges and virtual hosts."""

from collections.abc import Iterable

from warren.broker.plugin import Exchange

from .families import CLUSTER, PerObjectGroup, Texts, Values, counters, gauges, text
from .scope import Scope

TYPED = ("vhost", "exchange", "type")


def published(scope: Scope) -> Values:
    return scope.statistics.publishing.values()


def named_exchanges(scope: Scope) -> Iterable[Exchange]:
    """Return the exchanges that clients may publish to by name."""
    return (exchange for exchange in scope.exchanges if exchange.name and not exchange.internal)


def labels_with_type(exchange: Exchange) -> Texts:
    return text(exchange.vhost), text(exchange.name), text(exchange.type_name)


EXCHANGES = PerObjectGroup(
    "exchange_metrics",
    counters(exchange_messages_published="Messages published to an exchange"),
    lambda scope: scope.exchanges,
    lambda exchange: (exchange.publish_in,),
    ("vhost", "exchange"),
    lambda exchange: (text(exchange.vhost), text(exchange.name)),
    total=lambda scope: published(scope)[:1],
)
# Only summed: the outcome of publishes is counted by channel and virtual host.
OUTCOMES: PerObjectGroup[Exchange] = PerObjectGroup(
    "exchange_outcomes",
    counters(
        exchange_messages_confirmed="Messages confirmed to those who published them",
        exchange_messages_unroutable_returned="Unroutable mandatory messages",
        exchange_messages_unroutable_dropped="Unroutable messages that were not mandatory",
    ),
    lambda scope: (),
    lambda one: (),
    total=lambda scope: published(scope)[1:],
)
VHOST = gauges(vhost_status="1 for each virtual host, as all are running")
BINDINGS = gauges(exchange_bindings="Bindings with an exchange as source")
NAMES = gauges(exchange_name="1, labelled with the type of an exchange")
ASKED_FOR = (  # only in /metrics/detailed
    PerObjectGroup(
        "vhost_status",
        VHOST,
        lambda scope: scope.vhosts,
        lambda vhost: (1,),
        ("vhost",),
        lambda vhost: (text(vhost.name),),
        prefix=CLUSTER,
    ),
    PerObjectGroup(
        "exchange_bindings",
        BINDINGS,
        named_exchanges,
        lambda exchange: (len(exchange.outgoing),),
        TYPED,
        labels_with_type,
        prefix=CLUSTER,
    ),
    PerObjectGroup(
        "exchange_names", NAMES, named_exchanges, lambda exchange: (1,), TYPED, labels_with_type, prefix=CLUSTER
    ),
)
