"""Limits of memory and disk, set while clients are connected."""

import pika
import pytest

from tests.support.polling import until
from tests.support.warrenctl import Controlled, Ready, Warrenctl, parameters

pytestmark = pytest.mark.sockets

GIB = 1 << 30  # memory of the node


MEMORY, DISK = "set_vm_memory_high_watermark", "set_disk_free_limit"


@pytest.mark.parametrize(("line", "bytes_", "says"), [
    (f"{MEMORY} 0.4", int(GIB * 0.4), "memory threshold on node to 0.4"),
    (f"{MEMORY} absolute 200MB", 200_000_000, "memory threshold on node to 200MB bytes"),
    (f"{MEMORY} absolute 200MiB", 200 << 20, "memory threshold on node to 200MiB bytes"),
    (f"{MEMORY} absolute 3000000", 3_000_000, "memory threshold on node to 3000000 bytes"),
    (f"{DISK} 50MB", 50_000_000, "disk free limit on node to 50MB bytes"),
    (f"{DISK} mem_relative 1.5", GIB * 3 // 2, "disk free limit on node to 1.5 times the total RAM"),
    (f"{DISK} 1000", 1000, "disk free limit on node to 1000 bytes"),
])  # fmt: skip
def test_a_limit_is_set(controlled: Controlled, in_process: Warrenctl, line: str, bytes_: int, says: str) -> None:
    assert in_process(line) == (0, f"Setting {says} ...\n", "")
    resources = controlled.host.resources
    assert bytes_ == (resources.memory_limit_bytes if MEMORY in line else resources.disk_free_limit_bytes)


@pytest.mark.parametrize(("line", "status", "says"), [
    ("set_vm_memory_high_watermark 2", 65, "The threshold should be a fraction between 0.0 and 1.0"),
    ("set_vm_memory_high_watermark much", 65, "a size follows the word absolute, as in: absolute 2GB"),
    ("set_vm_memory_high_watermark nan", 65, "Bad argument: A fraction of the memory is a number such as 0.4"),
    ("set_vm_memory_high_watermark absolute much", 65, "or a number with a unit, such as 512MiB or 2GB"),
    ("set_vm_memory_high_watermark absolute 5MBkb", 65, "Invalid units. Use one of kB, MB, GB, TB, KiB"),
    ("set_vm_memory_high_watermark absolute", 64, "not enough arguments."),
    (f"set_vm_memory_high_watermark absolute {10**400}", 65, "A size is at most 9223372036854775807 bytes"),
    (f"set_disk_free_limit {1 << 63}", 65, "A size is at most 9223372036854775807 bytes"),
    (f"set_disk_free_limit {'9' * 5000}GB", 65, "A size is at most 9223372036854775807 bytes"),
    ("add_user '' x", 65, "Bad argument: user cannot be an empty string"),
    ("set_disk_free_limit much", 65, "A size is a number of bytes, or a number with a unit"),
    ("set_disk_free_limit mem_relative inf", 65, "A fraction of the memory is a number such as 0.4\n"),
    ("set_disk_free_limit mem_relative", 64, "not enough arguments."),
])  # fmt: skip
def test_others_are_refused(controlled: Controlled, in_process: Warrenctl, line: str, status: int, says: str) -> None:
    ended, out, err = in_process(line)
    assert (ended, out) == (status, "")
    assert err.startswith("Error (argument validation): ") and says in err
    assert f"Usage\n\nwarrenctl [--node <node>] [--timeout <timeout>] [--quiet] {line.split()[0]}" in err
    assert controlled.host.resources.memory_limit_bytes == GIB


def test_publishers_wait_while_memory_is_low_and_go_on_after_that(ready: Ready, warrenctl: Warrenctl) -> None:
    heard: list[str] = []
    with pika.BlockingConnection(parameters(ready)) as connection:
        connection.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
        channel = connection.channel()
        assert warrenctl("set_vm_memory_high_watermark 0.000000001")[0] == 0
        assert warrenctl("alarms -q")[1] == "Memory alarm on node rabbit@here\n"
        channel.basic_publish("", "nowhere", b"1")
        until(lambda: bool(connection.process_data_events(0.01) or heard))
        assert warrenctl("set_vm_memory_high_watermark 0.99")[0] == 0
        until(lambda: bool(connection.process_data_events(0.01) or heard[1:]))
    assert heard == ["blocked", "unblocked"]
    assert warrenctl("check_alarms")[0] == 0


def test_a_disk_limit_above_what_is_free_is_an_alarm(ready: Ready, warrenctl: Warrenctl) -> None:
    assert warrenctl("set_disk_free_limit 9000000TB")[0] == 0  # nothing is stored, and no disk has that much free space
    until(lambda: warrenctl("alarms -q")[1] == "Disk alarm on node rabbit@here\n")
    assert warrenctl("set_disk_free_limit 50MB")[0] == 0
    until(lambda: warrenctl("check_alarms")[0] == 0)
