"""What any exchange may be told to do before its type routes: drop duplicates, hold messages for a while.

It is an exchange type around the one that was declared, so a plain exchange knows nothing of it.
"""

from __future__ import annotations

from .deduplicating import DeduplicatingExchange
from .delayed import DelayedExchange
from .exchange_type import ExchangeType


def decorated(type_: ExchangeType) -> ExchangeType:
    """This type, within what its arguments ask for. Duplicates are found when they are published, not when due."""
    arguments = type_.arguments
    if arguments.flag("x-delayed-exchange"):
        type_ = DelayedExchange.around(type_)
    if arguments.flag("x-message-deduplication"):
        type_ = DeduplicatingExchange.around(type_)
    return type_
