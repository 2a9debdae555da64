"""The simulated disk loses what a real one may lose, and nothing else."""

from random import Random

from tests.faults.simulation.disk import SECTOR, SimulatedDisk


def outcomes(disk: SimulatedDisk, name: str = "x") -> set[bytes | None]:
    """Return the possible contents of the file after a power loss."""
    found: set[bytes | None] = set()
    for seed in range(300):
        after = disk.power_loss(Random(seed))
        found.add(after.content(name) if name in after.names() else None)
    return found


def made(*pieces: bytes) -> SimulatedDisk:
    """Return a disk with one file, synced with its name."""
    disk = SimulatedDisk(Random(1))
    file = disk.open("x", True)
    disk.sync_folder()
    for piece in pieces:
        file.write(piece)
    file.sync()
    return disk


def test_any_of_the_sectors_that_are_not_synced_survive() -> None:
    disk = made(b"s" * 100)
    disk.open("x", False).write(b"u" * (3 * SECTOR))
    found = outcomes(disk)
    assert all(data is not None and data.startswith(b"s" * 100) for data in found)
    whole = [data for data in found if data is not None and len(data) == 3 * SECTOR + 100]
    kept = {tuple(data[at] == ord("u") for at in (100, SECTOR, 2 * SECTOR)) for data in whole}
    assert len(kept) == 8
    assert len({len(data) for data in found if data is not None}) > 10
    assert outcomes(disk.crash()) == found
    assert disk.crash().content("x") == b"s" * 100 + b"u" * (3 * SECTOR)


def test_a_cut_that_is_not_synced_may_come_undone() -> None:
    disk = made(b"a" * 700)
    disk.open("x", False).truncate(10)
    assert {len(data) for data in outcomes(disk) if data is not None} >= {10, 700}
    disk.open("x", False).sync()
    assert outcomes(disk) == {b"a" * 10}


def test_names_that_are_not_synced_may_be_old_or_new() -> None:
    disk = made(b"old")
    file = disk.open("new", True)
    file.write(b"new")
    file.sync()
    assert outcomes(disk, "new") == {None, b"new"}
    disk.rename("new", "x")
    assert outcomes(disk) == {b"old", b"new"}
    disk.sync_folder()
    assert outcomes(disk) == {b"new"} and outcomes(disk, "new") == {None}
    disk.remove("x")
    assert outcomes(disk) == {None, b"new"}


def test_what_is_written_while_a_sync_runs_is_not_synced_by_it() -> None:
    disk = made(b"a" * 100)
    file = disk.open("x", False)
    file.write(b"b" * SECTOR)
    disk.before = lambda what, name: file.write(b"c" * SECTOR) if what == "sync" else None
    file.sync()
    disk.before = None
    start = b"a" * 100 + b"b" * SECTOR
    found = outcomes(disk)
    assert all(data is not None and data.startswith(start) for data in found)
    assert {start, start + b"c" * SECTOR} < found
    file.sync()
    assert outcomes(disk) == {start + b"c" * SECTOR}


def test_the_sync_that_began_first_may_end_last() -> None:
    disk = made(b"a" * 100)
    file, other = disk.open("x", False), disk.open("x", False)

    def write_and_sync(what: str, name: str) -> None:
        disk.before = None
        file.write(b"c" * SECTOR)
        other.sync()

    file.write(b"b" * SECTOR)
    disk.before = write_and_sync
    file.sync()
    assert outcomes(disk) == {b"a" * 100 + b"b" * SECTOR + b"c" * SECTOR}
