"""Names of queues: reserved names, and names that the broker generates."""

from __future__ import annotations

import secrets

REPLY_TO = "amq.rabbitmq.reply-to"  # direct reply-to; prefix of the names of reply queues


def reply_queue_name() -> str:
    """Generate the name of a reply queue, of two parts as in RabbitMQ, which some clients rely on."""
    return f"{unique_name(REPLY_TO, '.')}.{secrets.token_urlsafe(16)}=="


def unique_name(prefix: str, joint: str = "-") -> str:
    """Generate a name that nobody can guess, with 16 random bytes as 22 characters."""
    return f"{prefix}{joint}{secrets.token_urlsafe(16)}"
