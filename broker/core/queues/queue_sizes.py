"""The sizes of a queue: messages and bytes, ready and in memory, by RabbitMQ's names."""

from __future__ import annotations

from .queue import Queue

MESSAGE_BYTES = 600  # about what a message in memory takes in addition to its body


def queue_sizes(queue: Queue) -> dict[str, int]:
    """Return the sizes. Ready messages that only the journal has count as long as the average."""
    away = sum(fifo.paged_count for fifo in queue.ready_messages.all)
    ram, unacked = queue.ready - away, queue.unacked - queue.shed
    ready_bytes = max(queue.ready_bytes - away * queue.ready_messages.average_bytes, 0)
    ram_bytes = ready_bytes + queue.unacked_bytes - queue.shed_bytes
    message_bytes = queue.ready_bytes + queue.unacked_bytes
    return {
        "messages_ram": ram + unacked,
        "messages_ready_ram": ram,
        "messages_unacknowledged_ram": unacked,
        "messages_paged_out": away + queue.shed,
        "messages_persistent": queue.journal.count,
        "message_bytes": message_bytes,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "message_bytes_ram": ram_bytes,
        "message_bytes_paged_out": message_bytes - ram_bytes,
        "message_bytes_persistent": queue.journal.body_bytes,
        "memory": ram_bytes + (ram + unacked) * MESSAGE_BYTES,
    }
