"""The watch of an owner: what it notices without a commit."""

from __future__ import annotations

import pytest

from tests.support.postgresql import Cluster
from warren.broker.storage.errors import ConfirmedLost
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.operations import quoted
from warren.broker.storage.postgresql.store import PostgreSQLStore
from warren.broker.storage.postgresql.watch import Watch

pytestmark = pytest.mark.sockets


def never(value: object) -> None:
    raise AssertionError(value)


def test_confirmed_transactions_that_the_server_lacks_are_noticed_by_an_idle_broker(
    store: PostgreSQLStore, postgresql: Cluster, address: Address
) -> None:
    disk, _ = store.open()
    watch = Watch(store, 30.0, never, never)
    for name in ("a", "b"):
        disk.open(name, True)
        disk.commit()
    assert watch._beat() == ""
    postgresql.execute(f"UPDATE {quoted(address.schema)}.owner SET commits = 1")
    with pytest.raises(ConfirmedLost) as lost:
        watch._beat()
    assert (lost.value.stored, lost.value.confirmed) == (1, 2)
