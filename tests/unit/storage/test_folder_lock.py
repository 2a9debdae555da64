"""The lock on a data folder: one process at a time."""

import os
from pathlib import Path

import pytest

from warren.broker.storage import folder_lock
from warren.broker.storage.folder_lock import InUse, lock, take


def test_a_folder_is_made_and_locked_once(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    held = lock(folder)
    with pytest.raises(InUse) as caught:
        lock(folder)
    assert str(caught.value) == f"{folder} is in use by another broker (pid {os.getpid()})"
    os.close(held)
    os.close(lock(folder))


def test_what_a_killed_broker_left_in_the_file_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1234567890\n")
    held = lock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    os.close(held)


def test_a_file_that_a_failed_start_removes_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_late(descriptor: int, folder: Path) -> None:
        monkeypatch.undo()
        (folder / "lock").unlink()
        folder.rmdir()
        take(descriptor, folder)

    monkeypatch.setattr(folder_lock, "take", take_late)
    held = lock(tmp_path / "data")
    with pytest.raises(InUse):
        lock(tmp_path / "data")
    os.close(held)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        lock(tmp_path / "file" / "data")
