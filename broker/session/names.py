"""Names of queues and exchanges: reserved ones, names as declared, and names that the broker makes up."""

from __future__ import annotations

import secrets

REPLY_TO = "amq.rabbitmq.reply-to"  # direct reply-to; the queue of a channel has this as the prefix of its name


def strip_line_ends(name: str | None) -> str:
    """Remove CR and LF, which RabbitMQ does not take as part of a name. None is the empty name."""
    return (name or "").replace("\r", "").replace("\n", "")


def unique_name(prefix: str, joint: str = "-") -> str:
    """Make a name that nobody can guess: 16 random bytes as 22 characters."""
    return f"{prefix}{joint}{secrets.token_urlsafe(16)}"
