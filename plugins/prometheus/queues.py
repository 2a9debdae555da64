"""Metrics of queues."""

from collections.abc import Iterable

from warren.broker.core.metadata.queue_types import CLASSIC, QUORUM
from warren.broker.core.queues.queue import queue_sizes
from warren.broker.plugin import Queue

from .families import WARREN, Family, PerObjectGroup, Texts, Values, text
from .scope import Scope

TYPES = {CLASSIC: "rabbit_classic_queue", QUORUM: "rabbit_quorum_queue"}  # RabbitMQ's module of each type
LABELS = ("vhost", "queue")
DELIVERY = (
    Family("queue_get_ack_total", "counter", "Messages got from a queue by basic.get, to be acknowledged"),
    Family("queue_get_total", "counter", "Messages got from a queue by basic.get, not to be acknowledged"),
    Family("queue_messages_delivered_ack_total", "counter", "Messages delivered to consumers that acknowledge them"),
    Family("queue_messages_delivered_total", "counter", "Messages delivered to consumers that do not acknowledge them"),
    Family("queue_messages_redelivered_total", "counter", "Messages delivered from a queue again"),
    Family("queue_messages_acked_total", "counter", "Messages of a queue that were acknowledged"),
    Family("queue_get_empty_total", "counter", "basic.get requests to an empty queue"),
)
# With their names in `sizes`.
SIZES = (
    ("memory", Family("queue_process_memory_bytes", "gauge", "Memory that a queue and its messages take, about")),
    ("messages_ram", Family("queue_messages_ram", "gauge", "Messages of a queue that are in memory")),
    ("message_bytes_ram", Family("queue_messages_ram_bytes", "gauge", "Bodies of a queue that are in memory")),
    ("messages_ready_ram", Family("queue_messages_ready_ram", "gauge", "Ready messages that are in memory")),
    (
        "messages_unacknowledged_ram",
        Family("queue_messages_unacked_ram", "gauge", "Unacknowledged messages that are in memory"),
    ),
    ("messages_persistent", Family("queue_messages_persistent", "gauge", "Messages that a restart leaves")),
    ("message_bytes_persistent", Family("queue_messages_persistent_bytes", "gauge", "Bodies that a restart leaves")),
    ("message_bytes", Family("queue_messages_bytes", "gauge", "Bodies of all messages of a queue")),
    ("message_bytes_ready", Family("queue_messages_ready_bytes", "gauge", "Bodies of ready messages")),
    ("message_bytes_unacknowledged", Family("queue_messages_unacked_bytes", "gauge", "Bodies of unacknowledged ones")),
)
CONSUMERS = Family("queue_consumers", "gauge", "Consumers of a queue")


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
    return (len(queue.consumers), capacity, capacity, *(size[name] for name, _ in SIZES), *paged, 0, 0)


def delivering(queue: Queue) -> Values:
    return queue.delivering.values()


def delivered(scope: Scope) -> Values:
    """Return the deliveries of all queues, deleted ones included."""
    return scope.statistics.delivered().values()


def queue_totals(queue: Queue) -> Values:
    return queue.published, queue.delivering.deliver_get, queue.delivering.ack


GROUPS = (
    PerObjectGroup(
        "queue_coarse_metrics",
        (
            Family("queue_messages_ready", "gauge", "Messages that wait to be delivered"),
            Family("queue_messages_unacked", "gauge", "Messages that were delivered and are not acknowledged yet"),
            Family("queue_messages", "gauge", "Messages that are ready or not acknowledged yet"),
            Family("queue_process_reductions_total", "counter", "0: there are no Erlang processes here"),
        ),
        all_queues,
        coarse,
        LABELS,
        texts,
    ),
    PerObjectGroup("queue_consumer_count", (CONSUMERS,), all_queues, consumers, LABELS, texts),
    PerObjectGroup(
        "queue_metrics",
        (
            CONSUMERS,
            Family("queue_consumer_capacity", "gauge", "1 where a message would go to a consumer at once"),
            Family("queue_consumer_utilisation", "gauge", "The same as the capacity"),
            *(family for _, family in SIZES),
            Family("queue_messages_paged_out", "gauge", "Messages that are on the disk alone"),
            Family("queue_messages_paged_out_bytes", "gauge", "Bodies that are on the disk alone"),
            Family("queue_disk_reads_total", "counter", "0: reads are not counted for each queue"),
            Family("queue_disk_writes_total", "counter", "0: one write of the journal is for all queues"),
        ),
        all_queues,
        measure_group,
        LABELS,
        texts,
    ),
    PerObjectGroup("queue_delivery_metrics", DELIVERY, all_queues, delivering, LABELS, texts, total=delivered),
)
# The rates of single queues. Not in the aggregated endpoint, which has no series for each object.
COUNTERS_BY_QUEUE = PerObjectGroup(
    "warren_queue_metrics",
    (
        Family("queue_published_total", "counter", "Messages published to a queue"),
        Family("queue_delivered_total", "counter", "Messages delivered or got from a queue"),
        Family("queue_acknowledged_total", "counter", "Messages of a queue that were acknowledged"),
    ),
    all_queues,
    queue_totals,
    LABELS,
    texts,
    prefix=WARREN,
)
INFO = PerObjectGroup(
    "queue_info",
    (Family("queue_info", "gauge", "1, labelled with the type of a queue"),),
    all_queues,
    lambda queue: (1,),
    (*LABELS, "queue_type", "membership"),
    lambda queue: (*texts(queue), TYPES[queue.settings.type], "leader"),
)
