"""Output while it is uncertain whether another broker owns the store on PostgreSQL by now."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.in_process import InProcessPeer, socket_of
from warren.broker.app.postgresql_storage import RemoteStorage
from warren.broker.config import Config
from warren.broker.storage.postgresql.durability import Guarantee


class Site:
    """A server whose output is guarded by a store; `certain` says whether this broker surely owns it."""

    def __init__(self) -> None:
        self.certain = True
        self.peer = InProcessPeer()
        ownership = SimpleNamespace(certain=lambda: self.certain)
        store: Any = SimpleNamespace(ownership=ownership, guarantee=Guarantee("a disk"), opened=lambda: None)

        async def watch() -> RemoteStorage:
            return RemoteStorage(store, self.peer.node, Config(), lambda error: None)

        self.storage = asyncio.run(watch())
        self.peer.server.guard_output(self.storage)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.storage.stop()


def test_output_without_confirms_is_sent_after_a_batch_that_had_none(site: Site) -> None:
    channel = site.peer.connect().channel()
    assert site.storage.owned()
    site.peer.settle()
    site.certain = False
    channel.declare("q")  # it is answered, and the connection stays


def test_confirms_are_not_sent_once_another_broker_may_own_the_store(site: Site) -> None:
    client = site.peer.connect()
    assert site.storage.owned()
    socket_of(client).transport.flush_soon()
    site.certain = False
    assert not site.storage.owned(), "at the end of a second batch in the same turn"
    client.read_to_end()
    assert client.ended
