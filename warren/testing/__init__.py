"""A broker for the tests of any project: `with warren.testing.Broker() as broker:` (docs/testing.md).

The broker is a process of its own. `pytest_plugin` has fixtures for pytest, `BrokerMixin` is for unittest, and
`python -m warren.testing` is the same broker for programs in other languages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .broker import Broker
    from .foreign import ForeignBroker, NotPossible
    from .unittest_mixin import BrokerMixin
    from .vhost import BrokerError, VHost

__all__ = ["Broker", "BrokerError", "BrokerMixin", "ForeignBroker", "NotPossible", "VHost"]
MODULES = {
    "Broker": "broker", "BrokerError": "vhost", "BrokerMixin": "unittest_mixin", "ForeignBroker": "foreign",
    "NotPossible": "foreign", "VHost": "vhost",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import the names when they are used: pytest imports this package in every run, also for its plugin alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
