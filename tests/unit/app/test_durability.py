"""Syncs of the default configuration: what the broker has confirmed is on the disk, not with the system alone."""

import os
from pathlib import Path

import pytest

from tests.support.journal import commit, new_message
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.core.metadata.records import Change, StoredVHost
from warren.broker.storage.journal import Journal


def test_each_batch_of_the_default_store_is_synced_with_the_declarations_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fdatasync

    def record(descriptor: int) -> None:
        sync(descriptor)
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "fdatasync", record)
    journal = Store(Config(data_dir=str(tmp_path))).journal
    assert isinstance(journal, Journal)
    for _ in range(2):
        synced.clear()
        journal.change(Change(True, StoredVHost("v")))
        journal.append([1], [new_message(b"one")])
        commit(journal)
        assert synced == ["meta.sqlite-wal", "00000001.log"]
