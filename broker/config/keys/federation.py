"""The keys of federation: the stop of its links, and the checks of their objects upstream."""

from __future__ import annotations

from ..key import Key
from ..value_types import INFINITY, Boolean, Duration, Integer

CLOSE_MOST_MS = 5000


def link_keys(kind: str) -> tuple[Key, ...]:
    """Return the keys of links of exchanges or of queues."""
    prefix = f"federation.{kind}"
    return (
        Key(
            f"{prefix}.connection_close_timeout", Integer(0, CLOSE_MOST_MS), f"{prefix}.connection_close_timeout",
            "ms, to close the connection to an upstream",
        ),
        Key(f"{prefix}.shutdown.link_batch_size", Integer(1), f"{prefix}.link_batch_size", "links that stop at a time"),
        Key(f"{prefix}.shutdown.timeout", Duration("ms", 1), f"{prefix}.shutdown_timeout", "ms, for all of them"),
        Key(f"{prefix}.shutdown.throttle_delay", Duration("ms"), f"{prefix}.throttle_delay", "ms, between batches"),
    )  # fmt: skip


FEDERATION_KEYS: tuple[Key, ...] = (
    *link_keys("exchanges"),
    *link_keys("queues"),
    Key(
        "federation.internal_exchange_check_interval", Duration("ms", 1), "federation.internal_exchange_check_interval",
        "ms, between checks of the objects of an exchange's link upstream",
    ),
    Key(
        "federation.graceful_shutdown_cleanup", Boolean(), "federation.graceful_shutdown_cleanup",
        "delete upstream queues, with their messages, when this broker stops, as RabbitMQ does",
    ),
    Key("warren.federation_link_limit", Integer(none=INFINITY), "federation.link_limit", "links of the node in all"),
)  # fmt: skip
