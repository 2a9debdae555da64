"""A simulated disk that can lose power.

A file consists of 512-byte sectors, each either synced or not. `power_loss` keeps any subset of unsynced changes: of
sectors, of sizes, and of names that were created, renamed or removed since the folder was synced. If a file grew and
its new sectors are lost, these are zeros or random. `crash` is a killed process: all that was written is kept, synced
or not.

`before` is called before each call of a file or of the folder; it may raise an OSError, raise Stopped, or run other
code. After Stopped every call raises it again, until `crash` or `power_loss` makes the disk of the next process.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, ENOSPC
from os import strerror
from random import Random

from warren.broker.core.messages.ports import FULL
from warren.broker.storage.disk import Disk, File

SECTOR = 512


class Stopped(BaseException):
    """The process ends in the middle of this call."""


class Inode:
    """The contents of a file: now, and those that are certain after a power cut."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.dirty: set[int] = set()  # sectors written since the last sync
        self.sizes = [0]  # of the file since then

    def append(self, data: bytes) -> None:
        if data:
            start = len(self.data)
            self.data += data
            self.dirty.update(range(start // SECTOR, (len(self.data) - 1) // SECTOR + 1))
            self.sizes.append(len(self.data))

    def truncate(self, size: int) -> None:
        assert size <= len(self.data), "a file of the log only grows at its end"
        del self.data[size:]
        if size % SECTOR:
            self.dirty.add(size // SECTOR)
        self.sizes.append(size)

    def sync(self) -> None:
        del self.synced[len(self.data) :]
        self.synced += bytes(len(self.data) - len(self.synced))
        for sector in self.dirty:
            at = sector * SECTOR
            self.synced[at : at + SECTOR] = self.data[at : at + SECTOR]
        self.dirty = set()
        self.sizes = [len(self.data)]
        assert self.synced == self.data

    def copy(self) -> Inode:
        other = Inode()
        other.data, other.synced = self.data[:], self.synced[:]
        other.dirty, other.sizes = set(self.dirty), self.sizes[:]
        return other

    def after_power_loss(self, random: Random) -> Inode:
        size = random.choice(self.sizes)
        if size < max(self.sizes) and not random.randrange(3):
            size = random.randrange(size, max(self.sizes) + 1)
        data = self.synced[:size]
        rubbish = not random.randrange(8)
        missing = size - len(data)
        data += random.randbytes(missing) if rubbish else bytes(missing)
        share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for sector in sorted(self.dirty):
            at = sector * SECTOR
            if at < size and random.random() < share:
                piece = self.data[at : min(at + SECTOR, size)]
                data[at : at + len(piece)] = piece
        other = Inode()
        other.data, other.synced, other.sizes = data, data[:], [size]
        return other


class SimulatedFile(File):
    def __init__(self, disk: SimulatedDisk, name: str, inode: Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._closed = False
        self.size = len(inode.data)

    def _call(self, what: str) -> None:
        assert not self._closed or self._disk.stopped, f"{what} of {self._name}, which is closed"
        self._disk.call(what, self._name)

    def write(self, data: bytes) -> None:
        inode, disk = self._inode, self._disk
        start = self.size
        try:
            self._call("write")
        except Stopped:
            inode.append(data[: disk.random.randrange(len(data) + 1)])
            raise
        assert start == len(inode.data), f"{self._name} is written through two file objects"
        room = disk.free_bytes()
        if len(data) > room:
            inode.append(data[:room])
            inode.truncate(start)
            raise OSError(ENOSPC, strerror(ENOSPC), self._name)
        inode.append(data)
        self.size = len(inode.data)

    def sync(self) -> None:
        self._call("sync")
        self._inode.sync()

    def read(self, offset: int, count: int) -> bytes:
        self._call("read")
        return bytes(self._inode.data[offset : offset + count])

    def truncate(self, size: int) -> None:
        self._call("truncate")
        self._inode.truncate(size)
        self.size = size

    def close(self) -> None:
        """Close the file, which also happens if this call fails, as with Linux."""
        assert not self._closed or self._disk.stopped, f"{self._name} is closed twice"
        try:
            self._call("close")
        finally:
            self._closed = True


class SimulatedDisk(Disk):
    """A simulated disk. `limit_bytes` is the total size that all files may have; None for no limit."""

    def __init__(self, random: Random, limit_bytes: int | None = None) -> None:
        self.random = random
        self.limit_bytes = limit_bytes
        self.before: Callable[[str, str], None] | None = None
        self.stopped = False
        self._inodes: dict[str, Inode] = {}
        # By name, its inodes since the folder was synced, first the certain one.
        self._meant: dict[str, list[Inode | None]] = {}

    def call(self, what: str, name: str) -> None:
        if self.stopped:
            raise Stopped
        if self.before is not None:
            try:
                self.before(what, name)
            except Stopped:
                self.stopped = True
                raise
            except OSError as error:
                if what in ("sync", "sync_folder") and error.errno in FULL:  # like the files of a real disk
                    raise OSError(EIO, "not synced", name) from error
                raise

    def _name(self, name: str, inode: Inode | None) -> None:
        self._meant.setdefault(name, [self._inodes.get(name)]).append(inode)
        if inode is None:
            del self._inodes[name]
        else:
            self._inodes[name] = inode

    def open(self, name: str, create: bool) -> File:
        self.call("open", name)
        if create:
            if name in self._inodes:
                raise FileExistsError(name)
            self._name(name, Inode())
        if name not in self._inodes:
            raise FileNotFoundError(name)
        return SimulatedFile(self, name, self._inodes[name])

    def names(self) -> list[str]:
        self.call("names", "")
        return sorted(self._inodes)

    def remove(self, name: str) -> None:
        self.call("remove", name)
        if name not in self._inodes:
            raise FileNotFoundError(name)
        self._name(name, None)

    def rename(self, old: str, new: str) -> None:
        self.call("rename", new)
        if old not in self._inodes:
            raise FileNotFoundError(old)
        self._name(new, self._inodes[old])
        self._name(old, None)

    def sync_folder(self) -> None:
        self.call("sync_folder", "")
        self._meant = {}

    def free_bytes(self) -> int:
        return 1 << 40 if self.limit_bytes is None else max(0, self.limit_bytes - self.used_bytes)

    def salt(self) -> int:
        return self.random.getrandbits(32)

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.data) for inode in self._inodes.values())

    def content(self, name: str) -> bytes:
        return bytes(self._inodes[name].data)

    def put(self, name: str, data: bytes) -> None:
        """Set the contents of a file, durably, also where it is open."""
        inode = self._inodes.setdefault(name, Inode())
        inode.data, inode.synced = bytearray(data), bytearray(data)
        inode.dirty, inode.sizes = set(), [len(data)]
        self._meant.pop(name, None)

    def crash(self) -> SimulatedDisk:
        """Return the disk of the next process after this one was killed."""
        other = SimulatedDisk(self.random)
        copies = {id(inode): inode.copy() for inode in self._inodes.values()}
        for meant in self._meant.values():
            copies.update((id(inode), inode.copy()) for inode in meant if inode and id(inode) not in copies)
        other._inodes = {name: copies[id(inode)] for name, inode in self._inodes.items()}
        other._meant = {name: [inode and copies[id(inode)] for inode in meant] for name, meant in self._meant.items()}
        return other

    def damage(self, name: str, offset: int) -> None:
        """Change a byte of a file, as an ageing medium may."""
        inode = self._inodes[name]
        inode.data[offset] ^= 0xFF
        inode.dirty.add(offset // SECTOR)

    def power_loss(self, random: Random) -> SimulatedDisk:
        """Return the disk of the next process after a power cut."""
        other = SimulatedDisk(self.random)
        for name in sorted(self._inodes.keys() | self._meant.keys()):
            inode = random.choice(self._meant[name]) if name in self._meant else self._inodes[name]
            if inode is not None:
                other._inodes[name] = inode.after_power_loss(random)
        return other
