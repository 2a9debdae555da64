"""Names that clients may not declare: those with the prefix `amq.`, and the empty name of the default exchange."""

from __future__ import annotations

from ...amqp.errors import AccessRefused
from ...amqp.limits import RESERVED


def check_prefix(kind: str, name: str) -> None:
    """Check the name of a new queue or exchange (`kind`). Raises AccessRefused (403)."""
    if name.startswith(RESERVED):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_not_default(exchange: str) -> None:
    """Check the name of an exchange to declare, delete or bind. Raises AccessRefused (403)."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")
