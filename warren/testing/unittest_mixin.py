"""The broker for test cases of unittest, synchronous and asynchronous ones."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .broker import Broker, open_broker
from .vhost import VHost, vhost_name

if TYPE_CHECKING:
    from unittest import TestCase as _TestCase

    from .foreign import ForeignBroker
else:
    _TestCase = object

BROKERS: dict[str, Broker | ForeignBroker] = {}  # of this process, by their configuration


class BrokerMixin(_TestCase):
    """A mixin for `unittest.TestCase` and `unittest.IsolatedAsyncioTestCase`, which stands before these.

    The broker starts with the first test that uses it, serves all test cases of the process with the same
    `amqp_broker_config`, and is closed at the end of the process. Faults are undone after each test: after `tearDown`
    and before the functions of `addCleanup` are called.
    """

    amqp_broker_config: ClassVar[Mapping[str, object]] = {}  # keys of rabbitmq.conf

    @property
    def amqp_broker(self) -> Any:
        """The `Broker`, or the `ForeignBroker` at the address that the variable WARREN_TESTING_AMQP_URL has."""
        broker = shared_broker(self.amqp_broker_config)
        if not hasattr(self, "_amqp_broker"):
            self._amqp_broker = broker
            self.addCleanup(self._undo_faults)  # those of functions of addCleanup
            broker.ensure_running()
        return broker

    @property
    def amqp_vhost(self) -> VHost:
        """A new virtual host for this test, which is deleted after it."""
        if not hasattr(self, "_amqp_vhost"):
            self._amqp_vhost: VHost = self.amqp_broker.vhost(vhost_name(self._testMethodName))
            self.addCleanup(self._amqp_vhost.delete)
        return self._amqp_vhost

    @property
    def amqp_url(self) -> str:
        """The address of the virtual host of this test."""
        return self.amqp_vhost.url

    def doCleanups(self) -> Any:
        self._undo_faults()
        return super().doCleanups()

    def _undo_faults(self) -> None:
        if hasattr(self, "_amqp_broker"):
            self._amqp_broker.undo_faults()


def shared_broker(config: Mapping[str, object]) -> Broker | ForeignBroker:
    """Return the broker of this process for this configuration."""
    key = f"{os.getpid()} {sorted(config.items())}"  # a forked process has brokers of its own
    if key not in BROKERS:
        broker = open_broker(config)
        atexit.register(broker.__exit__)
        BROKERS[key] = broker.__enter__()
    return BROKERS[key]
