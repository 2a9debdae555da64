"""The end of a stop: a disk that fails then gives the status of a failed disk, and all else is closed."""

import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from warren.broker.app.main import FAILED, close
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.storage.folder_disk import FolderDisk


class Parts:
    """Committer, local socket and remote storage of a broker that stops; `calls` are their ends in order."""

    def __init__(self, fails: bool = False) -> None:
        self.calls: list[str] = []
        self.fails = fails

    async def stop_committer(self) -> bool:
        self.calls.append("committer")
        return True

    def unlink(self) -> None:
        if self.fails:
            raise OSError(errno.EIO, "broken")

    async def close(self) -> None:
        self.calls.append("socket")

    def stop(self) -> None:
        self.calls.append("heartbeats")


class FakeCommitter:
    def __init__(self, parts: Parts) -> None:
        self.stop = parts.stop_committer


async def stopped(store: Store, parts: Parts) -> tuple[int, list[str]]:
    """Close them, and return the status and the events that were logged."""
    with capture_logs() as lines:
        status = await close(FakeCommitter(parts), store, parts, parts)  # type: ignore[arg-type]
    return status, [str(line["event"]) for line in lines]


@pytest.mark.parametrize("call", ["rename", "sync_folder", "open"])
async def test_an_error_of_the_last_checkpoint_is_a_failed_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store, parts = Store(Config(data_dir=str(tmp_path))), Parts()

    def fail(*arguments: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(FolderDisk, call, fail)
    assert await stopped(store, parts) == (FAILED, ["storage_failed", "stopped"])
    assert parts.calls == ["committer", "heartbeats", "socket"], "the last batch is stored while the store is owned"


async def test_a_socket_that_cannot_be_unlinked_keeps_no_checkpoint_from_being_saved(tmp_path: Path) -> None:
    store = Store(Config(data_dir=str(tmp_path)))
    (tmp_path / "log" / "checkpoint").unlink(missing_ok=True)
    assert await stopped(store, Parts(fails=True)) == (0, ["no_control_socket", "stopped"])
    assert (tmp_path / "log" / "checkpoint").exists()
