"""The monitor of memory and disk, and what Linux reports of them."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from warren.broker.core.telemetry.resource_alarms import Alarms
from warren.broker.runtime import resource_monitor
from warren.broker.runtime.process_memory import PAGE_BYTES, cgroup_limits, resident_bytes, total_bytes
from warren.broker.runtime.resource_monitor import TRIM_LOOKS, Resources


class Machine:
    def __init__(self, longest_bytes: int = 0) -> None:
        self.used: int | None = 500
        self.free = 1000
        self.trims = 0
        self.alarms = Alarms()
        self.resources = Resources(self.alarms, lambda: self.free, self._trim, lambda: self.used, 1000, longest_bytes)

    def _trim(self) -> None:
        self.trims += 1


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_memory_above_the_watermark_is_an_alarm_until_it_is_below(machine: Machine):
    machine.resources.set_vm_memory_high_watermark(machine.resources.share(0.6))
    assert machine.alarms.reason == ""
    machine.used = 601
    machine.resources.look_at_memory()
    assert machine.alarms.reason == "low on memory"
    machine.used = 600
    machine.resources.look_at_memory()
    assert machine.alarms.reason == ""


def test_an_alarm_that_an_operator_sets_or_clears_stays_so_until_a_limit_is_crossed(machine: Machine):
    def look_at_disk() -> None:
        machine.resources.disk_full(not machine.resources.disk_has_room())

    machine.resources.set_vm_memory_high_watermark(600)
    machine.alarms.set("memory")
    machine.alarms.set("disk")
    machine.resources.look_at_memory()
    look_at_disk()
    assert machine.alarms.reason == "low on memory & disk"
    machine.used, machine.resources.disk_free_limit_bytes = 601, 1001
    machine.resources.look_at_memory()
    look_at_disk()
    machine.alarms.clear("memory")
    machine.alarms.clear("disk")
    machine.resources.look_at_memory()
    look_at_disk()
    assert machine.alarms.reason == ""
    machine.used, machine.resources.disk_free_limit_bytes = 600, 0
    machine.resources.look_at_memory()
    machine.used, machine.resources.disk_free_limit_bytes = 601, 1001
    machine.resources.look_at_memory()
    look_at_disk()
    assert machine.alarms.reason == "low on memory"  # the disk has not been seen with room


def test_another_watermark_acts_at_once(machine: Machine):
    machine.resources.set_vm_memory_high_watermark(499)
    assert machine.alarms.reason == "low on memory"
    machine.resources.set_vm_memory_high_watermark(500)
    assert machine.alarms.reason == ""
    machine.resources.set_vm_memory_high_watermark(0)
    assert machine.alarms.reason == "low on memory"


def test_during_the_alarm_freed_memory_is_given_back_from_time_to_time(machine: Machine):
    machine.resources.set_vm_memory_high_watermark(0)
    assert machine.trims == 1
    for _ in range(TRIM_LOOKS):
        machine.resources.look_at_memory()
    assert machine.trims == 2


MIB = 1 << 20


@pytest.mark.parametrize(
    ("used_mib", "at_least_s", "at_most_s"), [(0, 1.0, 1.0), (3_900, 0.15, 0.25), (3_999, 0.0, 0.05), (4_001, 1.0, 1.0)]
)
def test_memory_is_checked_in_time(machine: Machine, used_mib: int, at_least_s: float, at_most_s: float) -> None:
    machine.used = used_mib * MIB
    machine.resources.set_vm_memory_high_watermark(4_000 * MIB)
    assert at_least_s <= machine.resources.memory_look_s() <= at_most_s


def test_a_system_that_does_not_tell_sets_no_alarm(machine: Machine):
    machine.used = None
    machine.resources.set_vm_memory_high_watermark(0)
    assert machine.alarms.reason == ""


async def test_another_limit_of_the_disk_is_looked_at_at_once(machine: Machine):
    resources = machine.resources
    resources.set_disk_free_limit(1000)
    resources.watch(lambda: resources.disk_full(not resources.disk_has_room()))
    assert machine.alarms.reason == ""
    resources.set_disk_free_limit(1001)
    assert machine.alarms.reason == "low on disk"
    machine.free = 1001
    resources.set_disk_free_limit(1001)
    assert machine.alarms.reason == ""
    resources.stop()


async def test_an_error_of_one_check_does_not_end_the_checks(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    failed, trimmed = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda *_: failed.set())
    monkeypatch.setattr(resource_monitor, "MEMORY_LOOK_S", 0.001)
    resources = Resources(machine.alarms, lambda: 1, trimmed.set, lambda: 500, 1000)
    resources.watch(lambda: None)
    resources.memory_limit_bytes = 10**400  # which is too large for the time until the next check
    await asyncio.wait_for(failed.wait(), 5)
    resources.memory_limit_bytes = 499
    await asyncio.wait_for(trimmed.wait(), 5)
    assert machine.alarms.reason == "low on memory"
    resources.stop()


def test_what_is_still_to_be_written_counts_as_used(machine: Machine):
    machine.resources.set_disk_free_limit(100)
    machine.free = 150
    assert machine.resources.disk_has_room(50) and not machine.resources.disk_has_room(51)


def test_the_disk_has_room_for_one_message_of_any_length() -> None:
    machine = Machine(longest_bytes=200)
    machine.resources.set_disk_free_limit(100)
    machine.free = 250
    assert machine.resources.disk_has_room(50) and not machine.resources.disk_has_room(51)
    machine.resources.set_disk_free_limit(240)
    assert machine.resources.disk_has_room(10) and not machine.resources.disk_has_room(11)


def test_without_a_limit_the_disk_has_room_until_it_is_full(machine: Machine):
    machine.resources.set_disk_free_limit(0)
    machine.free = 1
    assert machine.resources.disk_has_room()
    machine.free = 0
    assert not machine.resources.disk_has_room(), "what is left is for settlements"


def test_a_container_has_what_its_groups_allow(tmp_path: Path):
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (groups / "outer" / "inner").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/outer/inner\n")
    (groups / "outer" / "inner" / "memory.max").write_text("max\n")
    (groups / "outer" / "memory.max").write_text("1000\n")
    assert cgroup_limits(proc, groups) == [1000] and total_bytes(proc, groups) == 1000


def test_the_first_version_of_groups_is_read_too(tmp_path: Path):
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (groups / "memory").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("5:cpu:/docker/abc\n4:memory,hugetlb:/docker/abc\n")
    (groups / "memory" / "memory.limit_in_bytes").write_text("2000\n")
    assert cgroup_limits(proc, groups) == [2000]


def test_resident_memory_is_counted_in_pages(tmp_path: Path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "statm").write_text("100 7 3 1 0 5 0\n")
    assert resident_bytes(tmp_path) == 7 * PAGE_BYTES
    assert resident_bytes(tmp_path / "nothing") is None


def test_the_free_space_that_is_shown_is_the_last_known_one_while_the_disk_cannot_be_read(machine: Machine):
    machine.free = 700
    assert machine.resources.shown_free_bytes() == 700

    def refuse() -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    machine.resources.free_bytes = refuse
    assert machine.resources.shown_free_bytes() == 700


def test_an_alarm_is_described_by_what_was_measured_and_its_limit() -> None:
    machine = Machine(longest_bytes=70)
    machine.resources.memory_limit_bytes, machine.resources.disk_free_limit_bytes = 600, 50
    assert machine.resources.facts("/data", "memory") == {"used_bytes": 500, "limit_bytes": 600}
    assert machine.resources.facts("/data", "disk") == {"disk": "/data", "free_bytes": 1000, "limit_bytes": 70}
    assert machine.resources.facts("/data", "store") == {}
