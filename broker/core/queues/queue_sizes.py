"""Sizes of a queue: messages and bytes, ready and in memory, by RabbitMQ's names."""

from __future__ import annotations

from .queue import Queue

MESSAGE_BYTES = 600  # that a message in memory takes beside its body, about


def queue_sizes(queue: Queue) -> dict[str, int]:
    """Count what is not in the journal alone, to be read back, as in memory."""
    away = sum(len(fifo.backlog) for fifo in queue.ready_messages.all)
    ram = queue.ready - away
    ram_bytes = max(queue.ready_bytes - away * queue.ready_messages.average_bytes, 0) + queue.unacked_bytes
    message_bytes = queue.ready_bytes + queue.unacked_bytes
    return {
        "messages_ram": ram + queue.unacked,
        "messages_ready_ram": ram,
        "messages_unacknowledged_ram": queue.unacked,
        "messages_paged_out": away,
        "messages_persistent": queue.journal.count,
        "message_bytes": message_bytes,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "message_bytes_ram": ram_bytes,
        "message_bytes_paged_out": message_bytes - ram_bytes,
        "message_bytes_persistent": queue.journal.body_bytes,
        "memory": ram_bytes + (ram + queue.unacked) * MESSAGE_BYTES,
    }
