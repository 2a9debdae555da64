"""Limits of memory and disk, set while clients are connected."""

import pika
import pytest

from tests.support.polling import until
from tests.support.warrenctl import Controlled, Ready, Warrenctl, parameters

pytestmark = pytest.mark.sockets

GIB = 1 << 30  # memory of the node


@pytest.mark.parametrize(
    ("line", "limit", "banner"),
    [
        ("0.4", int(GIB * 0.4), "0.4"),
        ("absolute 200MB", 200_000_000, "200MB bytes"),
        ("absolute 200MiB", 200 << 20, "200MiB bytes"),
        ("absolute 3000000", 3_000_000, "3000000 bytes"),
    ],
)
def test_a_memory_limit_is_a_share_or_a_size(
    controlled: Controlled, in_process: Warrenctl, line: str, limit: int, banner: str
) -> None:
    output = f"Setting memory threshold on node to {banner} ...\n"
    assert in_process(f"set_vm_memory_high_watermark {line}") == (0, output, "")
    assert controlled.host.resources.memory_limit_bytes == limit


@pytest.mark.parametrize(
    ("line", "limit", "banner"),
    [
        ("50MB", 50_000_000, "50MB bytes"),
        ("mem_relative 1.5", GIB * 3 // 2, "1.5 times the total RAM"),
        ("1000", 1000, "1000 bytes"),
    ],
)
def test_a_disk_limit_is_a_size_or_a_share(
    controlled: Controlled, in_process: Warrenctl, line: str, limit: int, banner: str
) -> None:
    output = f"Setting disk free limit on node to {banner} ...\n"
    assert in_process(f"set_disk_free_limit {line}") == (0, output, "")
    assert controlled.host.resources.disk_free_limit_bytes == limit


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
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
    ],
)
def test_an_invalid_limit_is_refused(
    controlled: Controlled, in_process: Warrenctl, line: str, status: int, says: str
) -> None:
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
