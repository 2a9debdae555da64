"""A simulated disk that can lose power.

A file consists of 512-byte sectors, each either synced or not. `power_loss` keeps any subset of unsynced changes: of
sectors, of sizes, and of names that were created, renamed or removed since the folder was synced. If a file grew and
its new sectors are lost, these are zeros or random. `crash` is a killed process: all that was written is kept, synced
or not.

A sync covers what was written before it began: `before` may write meanwhile, also to the same file, and that remains
unsynced. After a sync that failed, unsynced sectors may be lost, although they can still be read, and each other open
file object reports this once, like Linux; in the next process they are as unsynced as others.

`before` is called before each call of a file or of the folder; it may raise an OSError, raise Stopped, or run other
code. After Stopped every call raises it again, until `crash` or `power_loss` makes the disk of the next process.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, ENOSPC
from os import strerror
from random import Random

from warren.broker.core.messages.journal_port import FULL
from warren.broker.storage.disk import Disk
from warren.broker.storage.folder_disk import File, FileDisk

SECTOR = 512


class Stopped(BaseException):
    """The process ends in the middle of this call."""


class Begun:
    """The beginning of a sync: the state of the inode at that time, which the sync covers."""

    def __init__(self, inode: Inode) -> None:
        self.writes = inode.writes
        self.size = len(inode.data)
        self.dirty = dict(inode.dirty)
        self.sectors = {sector: inode.data[sector * SECTOR : (sector + 1) * SECTOR] for sector in inode.dirty}


class Inode:
    """The contents of a file: now, and those that are certain after a power cut.

    writes    count of the changes so far, by which they are numbered
    dirty     by sector that was written since the last sync, its last change
    sizes     of the file since the last sync: the number of each change and the size after it; first the certain one
    lost      sectors that a failed sync has lost, likewise
    failures  of syncs
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.writes = 0
        self.dirty: dict[int, int] = {}
        self.lost: dict[int, int] = {}
        self.sizes = [(0, 0)]
        self.failures = 0
        self._certain: dict[int, int] = {}  # by sector, the last change that is synced

    def _changed(self, sectors: range) -> None:
        self.writes += 1
        self.dirty.update(dict.fromkeys(sectors, self.writes))
        self.sizes.append((self.writes, len(self.data)))

    def append(self, data: bytes) -> None:
        if data:
            start = len(self.data)
            self.data += data
            self._changed(range(start // SECTOR, (len(self.data) - 1) // SECTOR + 1))

    def truncate(self, size: int) -> None:
        assert size <= len(self.data), "a file of the log only grows at its end"
        del self.data[size:]
        self._changed(range(size // SECTOR, size // SECTOR + (size % SECTOR > 0)))

    def damage(self, offset: int) -> None:
        self.data[offset] ^= 0xFF
        self._changed(range(offset // SECTOR, offset // SECTOR + 1))

    def end_sync(self, begun: Begun) -> None:
        """Make the state at the beginning of the sync certain, except for sectors that a failed sync has lost."""
        if begun.writes >= self.sizes[0][0]:
            after = [(write, size) for write, size in self.sizes if write > begun.writes]
            self.sizes = [(begun.writes, begun.size), *after]
            del self.synced[begun.size :]
            self.synced += bytes(begun.size - len(self.synced))
        for sector, write in begun.dirty.items():
            if sector in self.dirty and self._certain.get(sector, 0) < write:
                self._certain[sector] = write
                at, piece = sector * SECTOR, begun.sectors[sector]
                self.synced[at : at + len(piece)] = piece
                if self.dirty[sector] == write:
                    del self.dirty[sector]

    def fail_sync(self, random: Random) -> None:
        """Lose some sectors: the system keeps them in memory only, and does not write them again."""
        self.failures += 1
        share = random.choice((0.0, 0.5, 1.0))
        for sector in list(self.dirty):
            if random.random() < share:
                self.lost[sector] = self.dirty.pop(sector)

    def copy(self) -> Inode:
        other = Inode()
        other.data, other.synced = self.data[:], self.synced[:]
        other.dirty, other.sizes, other.writes = self.lost | self.dirty, self.sizes[:], self.writes
        other._certain = dict(self._certain)
        return other

    def after_power_loss(self, random: Random) -> Inode:
        sizes = [size for _, size in self.sizes]
        size = random.choice(sizes)
        if size < max(sizes) and not random.randrange(3):
            size = random.randrange(size, max(sizes) + 1)
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
        other.data, other.synced, other.sizes = data, data[:], [(0, size)]
        return other


class SimulatedFile(File):
    def __init__(self, disk: SimulatedDisk, name: str, inode: Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._closed = False
        self._failures = inode.failures  # those that this file object has reported, or that were before it
        self.size = len(inode.data)

    def _call(self, what: str) -> None:
        assert not self._closed or self._disk.stopped, f"{what} of {self._name}, which is closed"
        self._disk.call(what, self._name)

    def write(self, data: bytes | bytearray) -> None:
        inode, disk = self._inode, self._disk
        start = self.size
        try:
            self._call("write")
        except Stopped:
            inode.append(data[: disk.random.randrange(len(data) + 1)])
            disk.torn = True
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
        inode, begun = self._inode, Begun(self._inode)
        try:
            self._call("sync")
        except OSError:
            inode.fail_sync(self._disk.random)
            self._failures = inode.failures
            raise
        if self._failures < inode.failures:
            self._failures = inode.failures
            raise OSError(EIO, strerror(EIO), self._name)
        inode.end_sync(begun)

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


class SimulatedDisk(FileDisk):
    """A simulated disk.

    limit_bytes  the total size that all files may have; None for no limit
    errors       count of the calls that failed as `before` has raised an error
    stopped      the process has ended in a call
    torn         that call was a write, of which a part is in the file
    """

    def __init__(self, random: Random, limit_bytes: int | None = None) -> None:
        super().__init__()
        self.random = random
        self.limit_bytes = limit_bytes
        self.before: Callable[[str, str], None] | None = None
        self.errors = 0
        self.stopped = self.torn = False
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
                self.errors += 1
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

    def reader(self) -> Disk:
        return SimulatedReader(self)

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
        inode.dirty, inode.sizes = {}, [(inode.writes, len(data))]
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
        self._inodes[name].damage(offset)

    def power_loss(self, random: Random) -> SimulatedDisk:
        """Return the disk of the next process after a power cut."""
        other = SimulatedDisk(self.random)
        for name in sorted(self._inodes.keys() | self._meant.keys()):
            inode = random.choice(self._meant[name]) if name in self._meant else self._inodes[name]
            if inode is not None:
                other._inodes[name] = inode.after_power_loss(random)
        return other


class SimulatedReader(FileDisk):
    """The same files for another thread, which only reads."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self._disk = disk

    def open(self, name: str, create: bool) -> File:
        assert not create
        return self._disk.open(name, False)
