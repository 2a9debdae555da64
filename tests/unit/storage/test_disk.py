"""The real disk: behaves as the simulated one assumes."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from warren.broker.storage.disk import RESERVE_BYTES
from warren.broker.storage.folder_disk import RESERVE_NAME, RESERVE_PART_BYTES, FolderDisk, FolderFile


@pytest.fixture
def disk(tmp_path: Path) -> FolderDisk:
    return FolderDisk(tmp_path / "a" / "log", True)


def test_a_folder_is_made_and_closed_to_others(tmp_path: Path, disk: FolderDisk) -> None:
    assert (tmp_path / "a" / "log").stat().st_mode & 0o777 == 0o700
    disk.open("x", True).close()
    assert (tmp_path / "a" / "log" / "x").stat().st_mode & 0o777 == 0o600


def test_a_file_grows_at_its_end(disk: FolderDisk) -> None:
    file = disk.open("x", True)
    file.write(b"one")
    file.write(b"")
    file.write(b"two")
    file.sync()
    assert (file.size, file.read(0, 100), file.read(2, 2), file.read(6, 1)) == (6, b"onetwo", b"et", b"")
    file.close()
    again = disk.open("x", False)
    again.write(b"three")
    assert (again.size, again.read(0, 100)) == (11, b"onetwothree")
    again.close()


def test_a_file_is_cut_off(disk: FolderDisk) -> None:
    file = disk.open("x", True)
    file.write(b"one two")
    file.truncate(3)
    assert (file.size, file.read(0, 100)) == (3, b"one")
    file.write(b"!")
    assert file.read(0, 100) == b"one!"
    file.close()


def test_names(disk: FolderDisk) -> None:
    for name in ("b", "a"):
        file = disk.open(name, True)
        file.write(name.encode())
        file.close()
    assert disk.names() == ["a", "b"]
    with pytest.raises(FileExistsError):
        disk.open("a", True)
    with pytest.raises(FileNotFoundError):
        disk.open("c", False)
    disk.rename("a", "b")
    disk.sync_folder()
    assert disk.names() == ["b"]
    file = disk.open("b", False)
    assert file.read(0, 10) == b"a"
    disk.remove("b")
    assert disk.names() == []
    with pytest.raises(FileNotFoundError):
        disk.remove("b")
    assert file.read(0, 10) == b"a"  # until it is closed
    file.close()


def test_free_bytes(tmp_path: Path, disk: FolderDisk) -> None:
    assert 0 < disk.free_bytes() <= os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize


@pytest.mark.parametrize("fails_after", [0, 1, 2])
def test_a_write_that_fails_leaves_nothing(disk: FolderDisk, monkeypatch: pytest.MonkeyPatch, fails_after: int) -> None:
    """The disk takes a write in pieces, and is full before the last one."""
    file = disk.open("x", True)
    file.write(b"before")
    real, calls = os.pwrite, 0

    def short(descriptor: int, data: memoryview, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls > fails_after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:4], offset)

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(OSError) as raised:
        file.write(b"much more than there is room for")
    assert raised.value.errno == errno.ENOSPC
    assert (file.size, file.read(0, 100)) == (6, b"before")
    fails_after = 100
    file.write(b" and after")
    assert (file.size, file.read(0, 100)) == (16, b"before and after")
    file.close()


@pytest.mark.parametrize("durable", [True, False])
def test_what_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool) -> None:
    """Files and their folder are synced, and the parent of a new folder, unless nothing has to survive a power cut."""
    synced: list[str] = []

    def note(descriptor: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    disk = FolderDisk(tmp_path / "data" / "log", durable)
    assert synced == (["data", tmp_path.name] if durable else [])
    synced.clear()
    file = disk.open("x", True)
    file.write(b"x")
    file.sync()
    disk.sync_folder()
    file.close()
    assert synced == (["x", "log"] if durable else [])


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_final(disk: FolderDisk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fdatasync", fails)
    file = disk.open("x", True)
    file.write(b"x")
    with pytest.raises(OSError) as raised:
        file.sync()
    assert raised.value.errno == errno.EIO
    file.close()


def test_a_failed_open_keeps_no_descriptor(disk: FolderDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.open("x", True).close()
    opened: list[int] = []

    def fails(descriptor: int) -> os.stat_result:
        opened.append(descriptor)
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fails)
        with pytest.raises(OSError, match="broken"):
            disk.open("x", False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_the_reserve_is_allocated_and_spent_and_is_no_file_of_the_log(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path / "log", True)
    assert not disk.spend_reserve()
    disk.reserve()
    file = tmp_path / "log" / RESERVE_NAME
    assert file.stat().st_blocks * 512 >= RESERVE_BYTES and disk.names() == []
    after = FolderDisk(tmp_path / "log", True)
    for spent in range(1, RESERVE_BYTES // RESERVE_PART_BYTES):
        assert after.spend_reserve() and file.stat().st_size == RESERVE_BYTES - spent * RESERVE_PART_BYTES
    assert after.spend_reserve() and not file.exists() and not after.spend_reserve()
    after.reserve()
    assert file.stat().st_size == RESERVE_BYTES


def test_a_reserve_that_is_missing_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FolderDisk(tmp_path / "log", True)
    disk.reserve()
    status = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    free_bytes = disk.free_bytes()
    disk.spend_reserve()
    assert disk.free_bytes() == free_bytes - RESERVE_PART_BYTES


def test_a_reserve_is_allocated_wholly_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, offset: int, count: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    disk = FolderDisk(tmp_path / "log", True)
    disk.reserve()
    assert (tmp_path / "log" / RESERVE_NAME).stat().st_size == 0


@pytest.mark.parametrize("error", [None, OSError(errno.ENOSPC, "full")])
def test_checkpoints_close_files(disk: FolderDisk, monkeypatch: pytest.MonkeyPatch, error: OSError | None) -> None:
    def sync(file: FolderFile) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(FolderFile, "sync", sync)
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with nullcontext() if error is None else pytest.raises(OSError, match="full"):
            disk.save_checkpoint(b"state")
    assert os.listdir("/proc/self/fd") == before
