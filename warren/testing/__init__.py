"""A broker for the tests of any project: `with warren.testing.Broker() as broker:` (docs/testing.md).

The broker is a process of its own. `pytest_plugin` has fixtures for pytest, and `python -m warren.testing` is the same
broker for programs in other languages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .broker import Broker, BrokerError, VHost

__all__ = ["Broker", "BrokerError", "VHost"]


def __getattr__(name: str) -> object:
    """Import the names when they are used: pytest imports this package in every run, also for its plugin alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import broker

    return getattr(broker, name)
