"""Metrics of queues."""

from collections.abc import Iterable

from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM
from warren.broker.core.queues.queue import queue_sizes
from warren.broker.plugin import Queue

from .families import WARREN, PerObjectGroup, Texts, Values, counters, gauges, text
from .scope import Scope

TYPES = {CLASSIC: "rabbit_classic_queue", QUORUM: "rabbit_quorum_queue"}  # RabbitMQ's module of each type
LABELS = ("vhost", "queue")
COARSE = (
    *gauges(
        queue_messages_ready="Messages that wait to be delivered",
        queue_messages_unacked="Messages that were delivered and are not acknowledged yet",
        queue_messages="Messages that are ready or not acknowledged yet",
    ),
    *counters(queue_process_reductions="0: there are no Erlang processes here"),
)
CONSUMERS = gauges(queue_consumers="Consumers of a queue")
# The names of sizes, and their families.
SIZES = (
    *("memory", "messages_ram", "message_bytes_ram", "messages_ready_ram", "messages_unacknowledged_ram"),
    *("messages_persistent", "message_bytes_persistent", "message_bytes", "message_bytes_ready"),
    "message_bytes_unacknowledged",
)
ALL = (
    *CONSUMERS,
    *gauges(
        queue_consumer_capacity="1 where a message would go to a consumer at once",
        queue_consumer_utilisation="The same as the capacity",
        queue_process_memory_bytes="Memory that a queue and its messages take, about",
        queue_messages_ram="Messages of a queue that are in memory",
        queue_messages_ram_bytes="Bodies of a queue that are in memory",
        queue_messages_ready_ram="Ready messages that are in memory",
        queue_messages_unacked_ram="Unacknowledged messages that are in memory",
        queue_messages_persistent="Messages that a restart leaves",
        queue_messages_persistent_bytes="Bodies that a restart leaves",
        queue_messages_bytes="Bodies of all messages of a queue",
        queue_messages_ready_bytes="Bodies of ready messages",
        queue_messages_unacked_bytes="Bodies of unacknowledged ones",
        queue_messages_paged_out="Messages that are on the disk alone",
        queue_messages_paged_out_bytes="Bodies that are on the disk alone",
    ),
    *counters(
        queue_disk_reads="0: reads are not counted for each queue",
        queue_disk_writes="0: one write of the journal is for all queues",
    ),
)
DELIVERY = counters(
    queue_get_ack="Messages got from a queue by basic.get, to be acknowledged",
    queue_get="Messages got from a queue by basic.get, not to be acknowledged",
    queue_messages_delivered_ack="Messages delivered to consumers that acknowledge them",
    queue_messages_delivered="Messages delivered to consumers that do not acknowledge them",
    queue_messages_redelivered="Messages delivered from a queue again",
    queue_messages_acked="Messages of a queue that were acknowledged",
    queue_get_empty="basic.get requests to an empty queue",
)
TOTALS = counters(
    queue_published="Messages published to a queue",
    queue_delivered="Messages delivered or got from a queue",
    queue_acknowledged="Messages of a queue that were acknowledged",
)


def all_queues(scope: Scope) -> Iterable[Queue]:
    return scope.queues


def texts(queue: Queue) -> Texts:
    return text(queue.vhost), text(queue.name)


def coarse(queue: Queue) -> Values:
    return queue.stored, queue.unacked, queue.stored + queue.unacked, 0


def consumers(queue: Queue) -> Values:
    return (len(queue.consumers),)


def measure_group(queue: Queue) -> Values:
    size = queue_sizes(queue)
    capacity = float(queue.consumers.any_ready())  # true if a message would be delivered at once
    paged = queue.ready - size["messages_ready_ram"], size["message_bytes"] - size["message_bytes_ram"]
    return (len(queue.consumers), capacity, capacity, *(size[name] for name in SIZES), *paged, 0, 0)


def delivering(queue: Queue) -> Values:
    return queue.delivering.values()


def delivered(scope: Scope) -> Values:
    """Return the deliveries of all queues, deleted ones included."""
    return scope.statistics.delivered().values()


def queue_totals(queue: Queue) -> Values:
    return queue.published, queue.delivering.deliver_get, queue.delivering.ack


GROUPS = (
    PerObjectGroup("queue_coarse_metrics", COARSE, all_queues, coarse, LABELS, texts),
    PerObjectGroup("queue_consumer_count", CONSUMERS, all_queues, consumers, LABELS, texts),
    PerObjectGroup("queue_metrics", ALL, all_queues, measure_group, LABELS, texts),
    PerObjectGroup("queue_delivery_metrics", DELIVERY, all_queues, delivering, LABELS, texts, total=delivered),
)
# The rates of single queues. Not in the aggregated endpoint, which has no series for each object.
COUNTERS_BY_QUEUE = PerObjectGroup(
    "warren_queue_metrics", TOTALS, all_queues, queue_totals, LABELS, texts, prefix=WARREN
)
INFO = PerObjectGroup(
    "queue_info",
    gauges(queue_info="1, labelled with the type of a queue"),
    all_queues,
    lambda queue: (1,),
    (*LABELS, "queue_type", "membership"),
    lambda queue: (*texts(queue), TYPES[queue.settings.type], "leader"),
)
