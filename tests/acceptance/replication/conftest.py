"""Brokers with one store on PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.postgresql import Cluster, replicated

LEASE_S = 3
RETRY_S = 60
Sites = Callable[..., BrokerProcess]


@pytest.fixture
def servers(postgresql_programs: None) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary and its synchronous standby."""
    with replicated() as both:
        yield both


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    """A function that makes the broker with a name, a store and lines of configuration, not started."""
    with ExitStack() as stack:

        def site(
            name: str, store: str, *lines: str, amqp: str = ANY_PORT, http: str = ANY_PORT, fork: bool = True
        ) -> BrokerProcess:
            folder, node = tmp_path / name, f"warren@{name}"
            broker = BrokerProcess(folder, "--http", http, store=store, node=node, amqp=amqp, fork=fork)
            broker.configure(f"storage.lease_s = {LEASE_S}", f"storage.retry_s = {RETRY_S}", *lines)
            stack.callback(broker.close)
            return broker

        yield site
