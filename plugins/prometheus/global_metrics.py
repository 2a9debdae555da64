"""Counters of all messages since the start, and the numbers of objects.

They are present from the start with 0, as Prometheus cannot compute a rate from a first value.
"""

from collections.abc import Iterable

from warren.broker.core.counters.statistics import AT_LEAST_ONCE, AT_MOST_ONCE, CONFIRMED, DISABLED
from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM
from warren.broker.session.channel import Channel

from . import queues
from .channels import all_channels
from .families import FamilyGroup, Group, PerObjectGroup, Row, Values, counters, gauges, single_row
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
    for type_, of in list(scope.statistics.delivering.items()):
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


def open_now(scope: Scope) -> Values:
    return scope.node.open_connections, scope.node.connection_counts.channels, len(scope.queues)


def publishes(channel: Channel) -> Values:
    return (channel.publishing.publish > 0,)


RECEIVED = counters(
    global_messages_received="Messages that were published",
    global_messages_received_confirm="Messages published to be confirmed",
    global_messages_confirmed="Messages that were confirmed",
    global_messages_routed="Messages into queues, each queue counting",
    global_messages_unroutable_dropped="Unroutable messages that were not mandatory",
    global_messages_unroutable_returned="Unroutable mandatory messages",
)
DELIVERED = counters(
    global_messages_delivered="Messages delivered, or got by basic.get",
    global_messages_delivered_consume_manual_ack="Delivered, to be acknowledged",
    global_messages_delivered_consume_auto_ack="Delivered, not to be acknowledged",
    global_messages_delivered_get_manual_ack="Got, to be acknowledged",
    global_messages_delivered_get_auto_ack="Got, not to be acknowledged",
    global_messages_get_empty="basic.get requests to an empty queue",
    global_messages_redelivered="Messages delivered again",
    global_messages_acknowledged="Messages that were acknowledged",
)
GIVEN_UP = {f"global_messages_dead_lettered_{reason}": f"Messages given up: {reason}" for reason in REASONS}
DEAD_LETTERED = counters(**GIVEN_UP)
TAKEN = counters(global_messages_dead_lettered_confirmed="Dead letters that all of their queues have taken")
OPEN = gauges(connections="Connections that are open", channels="Channels that are open", queues="Number of queues")
CONSUMERS = gauges(global_consumers="Number of consumers")
PUBLISHERS = gauges(global_publishers="Channels that have published")
OF_PROTOCOL = (("protocol", PROTOCOL),)
OF_STRATEGY = ("queue_type", "dead_letter_strategy")
GLOBAL: tuple[Group, ...] = (
    FamilyGroup("global_received", RECEIVED, received, ("protocol",)),
    FamilyGroup("global_delivered", DELIVERED, delivered, ("protocol", "queue_type")),
    FamilyGroup("global_dead_lettered", DEAD_LETTERED, dead_lettered, OF_STRATEGY),
    FamilyGroup("global_dead_letters_confirmed", TAKEN, dead_letters_confirmed, OF_STRATEGY),
    PerObjectGroup("global_consumers", CONSUMERS, queues.all_queues, queues.consumers, summed=OF_PROTOCOL),
    PerObjectGroup("global_publishers", PUBLISHERS, all_channels, publishes, summed=OF_PROTOCOL),
)
TOTALS: tuple[Group, ...] = (
    FamilyGroup("totals", OPEN, single_row(open_now)),
    PerObjectGroup("consumers", gauges(consumers="Number of consumers"), queues.all_queues, queues.consumers),
)
