"""Fixtures of the crash tests. With WARREN_CRASH_STORE=postgresql the brokers store on PostgreSQL."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, run
from tests.support.postgresql import CARELESS, Cluster, cluster, missing

FILES_ONLY = "changes files of the data folder"
ON_POSTGRESQL = os.environ.get("WARREN_CRASH_STORE") == "postgresql"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    if reason := missing():
        pytest.skip(reason)
    with cluster(*CARELESS) as server:
        yield server


@pytest.fixture
def store(postgresql: Cluster) -> Iterator[str]:
    """The URL of an empty store on PostgreSQL."""
    postgresql.execute("CREATE DATABASE store TEMPLATE template0")
    url = postgresql.url(database="store")
    assert run("store", "init", url).returncode == 0
    yield url
    postgresql.execute("DROP DATABASE store WITH (FORCE)")


@pytest.fixture
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """A broker that has not been started."""
    on_postgresql = getattr(request, "param", "") == "postgresql" or ON_POSTGRESQL
    daemon = BrokerProcess(tmp_path, store=request.getfixturevalue("store") if on_postgresql else None)
    yield daemon
    daemon.close()
