"""A schema of its own for each test, on the PostgreSQL server of the worker."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.postgresql import Cluster
from warren.broker.storage.postgresql.address import Address, parse
from warren.broker.storage.postgresql.store import PostgreSQLStore, create

NUMBERS = count(1)


@pytest.fixture
def address(postgresql: Cluster) -> Address:
    """The address of an empty store."""
    address = parse(postgresql.url(), schema=f"store {next(NUMBERS)}")
    assert create(address)
    return address


@pytest.fixture
def store(address: Address) -> Iterator[PostgreSQLStore]:
    """A store that the test owns."""
    store = PostgreSQLStore(address, "warren@test")
    assert store.acquire() is None
    yield store
    store.close()
