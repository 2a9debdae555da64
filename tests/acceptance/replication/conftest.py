"""Brokers with one store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess, run
from tests.support.postgresql import CARELESS, Cluster, cluster, missing, replicated

LEASE_S = 3
RETRY_S = 60
Sites = Callable[..., BrokerProcess]


def init(url: str) -> str:
    """Create the tables of a store, and return its URL."""
    done = run("store", "init", url)
    assert done.returncode == 0, done.stderr
    return url


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server for the tests of a module, which leave it running."""
    if reason := missing():
        pytest.skip(reason)
    with cluster(*CARELESS) as server:
        yield server


@pytest.fixture
def store(server: Cluster) -> Iterator[str]:
    """The URL of an empty store on that server."""
    server.execute("CREATE DATABASE store TEMPLATE template0")
    yield init(server.url(database="store"))
    server.execute("DROP DATABASE store WITH (FORCE)")


@pytest.fixture
def servers() -> Iterator[tuple[Cluster, Cluster]]:
    """A primary and its synchronous standby."""
    if reason := missing():
        pytest.skip(reason)
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
