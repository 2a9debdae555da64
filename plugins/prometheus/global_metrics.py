"""Counters of all messages since the start, and the numbers of objects.

They are present from the start with 0, as Prometheus cannot compute a rate from a first value.
"""

from collections.abc import Iterable

from warren.broker.core.counters.statistics import AT_LEAST_ONCE, AT_MOST_ONCE, CONFIRMED, DISABLED
from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM
from warren.broker.session.channel import Channel

from . import queues
from .channels import all_channels
from .families import Family, FamilyGroup, Group, PerObjectGroup, Row, Values
from .scope import Scope

PROTOCOL = "amqp091"
STRATEGIES = {CLASSIC: (DISABLED, AT_MOST_ONCE), QUORUM: (DISABLED, AT_MOST_ONCE, AT_LEAST_ONCE)}
REASONS = ("maxlen", "expired", "rejected", "delivery_limit")


def received(scope: Scope) -> Iterable[Row]:
    of = scope.statistics
    outcomes = of.publishing
    values = (
        *(outcomes.publish, of.received_confirm, outcomes.confirm, of.routed),
        *(outcomes.drop_unroutable, outcomes.return_unroutable),
    )
    return [((PROTOCOL,), values)]


def delivered(scope: Scope) -> Iterable[Row]:
    for type_, of in scope.statistics.delivering.items():
        values = (
            *(of.deliver_get, of.deliver, of.deliver_no_ack, of.get, of.get_no_ack, of.get_empty),
            *(of.redeliver, of.ack),
        )
        yield (PROTOCOL, queues.TYPES[type_]), values


def dead_lettered(scope: Scope) -> Iterable[Row]:
    counts = scope.statistics.dead_lettered
    for type_ in (CLASSIC, QUORUM):
        for strategy in STRATEGIES[type_]:
            values = tuple(counts.get((type_, strategy, reason), 0) for reason in REASONS)
            yield (queues.TYPES[type_], strategy), values


def dead_letters_confirmed(scope: Scope) -> Iterable[Row]:
    count = scope.statistics.dead_lettered.get((QUORUM, AT_LEAST_ONCE, CONFIRMED), 0)
    return [((queues.TYPES[QUORUM], AT_LEAST_ONCE), (count,))]


def open_now(scope: Scope) -> Iterable[Row]:
    return [((), (scope.node.open_connections, scope.node.connection_counts.channels, len(scope.queues)))]


def publishes(channel: Channel) -> Values:
    return (channel.publishing.publish > 0,)


GLOBAL: tuple[Group, ...] = (
    FamilyGroup(
        "global_received",
        (
            Family("global_messages_received_total", "counter", "Messages that were published"),
            Family("global_messages_received_confirm_total", "counter", "Messages published to be confirmed"),
            Family("global_messages_confirmed_total", "counter", "Messages that were confirmed"),
            Family("global_messages_routed_total", "counter", "Messages into queues, each queue counting"),
            Family(
                "global_messages_unroutable_dropped_total", "counter", "Unroutable messages that were not mandatory"
            ),
            Family("global_messages_unroutable_returned_total", "counter", "Unroutable mandatory messages"),
        ),
        received,
        ("protocol",),
    ),
    FamilyGroup(
        "global_delivered",
        (
            Family("global_messages_delivered_total", "counter", "Messages delivered, or got by basic.get"),
            Family("global_messages_delivered_consume_manual_ack_total", "counter", "Delivered, to be acknowledged"),
            Family("global_messages_delivered_consume_auto_ack_total", "counter", "Delivered, not to be acknowledged"),
            Family("global_messages_delivered_get_manual_ack_total", "counter", "Got, to be acknowledged"),
            Family("global_messages_delivered_get_auto_ack_total", "counter", "Got, not to be acknowledged"),
            Family("global_messages_get_empty_total", "counter", "basic.get requests to an empty queue"),
            Family("global_messages_redelivered_total", "counter", "Messages delivered again"),
            Family("global_messages_acknowledged_total", "counter", "Messages that were acknowledged"),
        ),
        delivered,
        ("protocol", "queue_type"),
    ),
    FamilyGroup(
        "global_dead_lettered",
        tuple(
            Family(f"global_messages_dead_lettered_{reason}_total", "counter", f"Messages given up: {reason}")
            for reason in REASONS
        ),
        dead_lettered,
        ("queue_type", "dead_letter_strategy"),
    ),
    FamilyGroup(
        "global_dead_letters_confirmed",
        (
            Family(
                "global_messages_dead_lettered_confirmed_total",
                "counter",
                "Dead letters that all of their queues have taken",
            ),
        ),
        dead_letters_confirmed,
        ("queue_type", "dead_letter_strategy"),
    ),
    PerObjectGroup(
        "global_consumers",
        (Family("global_consumers", "gauge", "Number of consumers"),),
        queues.all_queues,
        queues.consumers,
        summed=(("protocol", PROTOCOL),),
    ),
    PerObjectGroup(
        "global_publishers",
        (Family("global_publishers", "gauge", "Channels that have published"),),
        all_channels,
        publishes,
        summed=(("protocol", PROTOCOL),),
    ),
)
TOTALS: tuple[Group, ...] = (
    FamilyGroup(
        "totals",
        (
            Family("connections", "gauge", "Connections that are open"),
            Family("channels", "gauge", "Channels that are open"),
            Family("queues", "gauge", "Number of queues"),
        ),
        open_now,
    ),
    PerObjectGroup(
        "consumers", (Family("consumers", "gauge", "Number of consumers"),), queues.all_queues, queues.consumers
    ),
)
