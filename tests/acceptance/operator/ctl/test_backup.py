"""`warrenctl backup` of a broker in a process of its own, and the end of it by kills and full disks."""

import os
import re
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import WARRENCTL, BrokerProcess, command_line, run
from tests.support.polling import until

pytestmark = pytest.mark.sockets
LONG = 1 << 20  # a body
MESSAGES = 12  # more than the buffers of a socket hold


def fill(broker: BrokerProcess) -> None:
    channel = broker.connect().channel()
    channel.declare("queue", durable=True)
    channel.confirm()
    channel.fill("queue", *[bytes([number]) * LONG for number in range(MESSAGES)], delivery_mode=2)
    channel.confirms(range(1, MESSAGES + 1))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("backup"))
    broker.start()
    fill(broker)
    yield broker
    broker.close()


def socket_of(broker: BrokerProcess) -> str:
    return str(Path(broker.addresses["control"][0]).parent)


def stalled(broker: BrokerProcess) -> subprocess.Popen[bytes]:
    """Return a `warrenctl backup -` whose output nobody reads, once it is under way."""
    line = command_line("--data", socket_of(broker), "backup", "-", module=WARRENCTL)
    begun = len(broker.events("backup_begun"))
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: len(broker.events("backup_begun")) > begun)
    return process


def end(broker: BrokerProcess, process: subprocess.Popen[bytes]) -> None:
    ended = len(broker.events("backup_ended"))
    process.kill()
    process.communicate()
    until(lambda: len(broker.events("backup_ended")) > ended)


def test_a_backup_is_private_replaces_the_former_one_and_is_verified(broker: BrokerProcess, tmp_path: Path) -> None:
    file, link = tmp_path / "backup.tar", tmp_path / "link"
    file.write_bytes(b"former")
    file.chmod(0o644)
    link.symlink_to(file)
    done = broker.warrenctl("backup", str(link))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f'Backing up node warren@test to a file at "{link}" ...\nBacked up and verified: {file.stat().st_size} bytes\n'
    )
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [file, link]
    checked = run("restore", "--check", str(file))
    assert checked.returncode == 0 and checked.stdout.startswith("a whole backup: ")
    assert broker.events("backup_ended")[-1]["whole"] is True


def test_a_backup_goes_to_the_standard_output_without_a_word(broker: BrokerProcess) -> None:
    line = command_line("--data", socket_of(broker), "backup", "-", module=WARRENCTL)
    done = subprocess.run(line, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    line = command_line("restore", "--check", "-")
    assert subprocess.run(line, input=done.stdout, capture_output=True).returncode == 0


def test_one_backup_is_taken_at_a_time_and_others_may_follow(broker: BrokerProcess, tmp_path: Path) -> None:
    process = stalled(broker)
    second = broker.warrenctl("backup", str(tmp_path / "file"))
    assert second.returncode == 69 and "another backup is under way" in second.stderr
    assert not list(tmp_path.iterdir())
    end(broker, process)
    assert broker.events("backup_ended")[-1]["whole"] is False
    assert broker.warrenctl("backup", str(tmp_path / "file")).returncode == 0


def test_a_killed_command_leaves_the_former_backup(broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    file.write_bytes(b"former")
    line = command_line("--data", socket_of(broker), "backup", str(file), module=WARRENCTL)
    ended = len(broker.events("backup_ended"))
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    until(lambda: any(new.stat().st_size for new in tmp_path.glob(".*.new")) or process.poll() is not None)
    process.kill()
    process.wait()
    until(lambda: len(broker.events("backup_ended")) > ended)
    assert file.read_bytes() == b"former" or run("restore", "--check", str(file)).returncode == 0


KILLED = "import os, signal; os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)"


def test_the_next_backup_removes_what_a_killed_command_has_left(broker: BrokerProcess, tmp_path: Path) -> None:
    file, others = tmp_path / "backup.tar", [tmp_path / f".{name}.abcdefgh.new" for name in ("backup.tar.old", "other")]
    line = ["--data", socket_of(broker), "backup", str(file)]
    killed = [sys.executable, "-c", f"{KILLED}; from {WARRENCTL}.main import main; main()", *line]
    assert subprocess.run(killed, capture_output=True).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert re.fullmatch(r"\.backup\.tar\.[a-z0-9_]{8}\.new", left.name) and left.stat().st_size > MESSAGES * LONG
    for other in others:
        other.touch()
    assert broker.warrenctl(*line[2:]).returncode == 0
    assert sorted(tmp_path.iterdir()) == sorted([file, *others])


def test_a_full_disk_leaves_the_former_backup(broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    file.write_bytes(b"former")
    line = command_line("--data", socket_of(broker), "backup", str(file), module=WARRENCTL)
    limited = ["sh", "-c", 'ulimit -f 4000; exec "$@"', "sh", *line]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode == 69 and f"cannot write {file}: File too large" in done.stderr
    assert file.read_bytes() == b"former" and list(tmp_path.iterdir()) == [file]
    done = broker.warrenctl("backup", "/dev/full")
    assert done.returncode == 69 and "cannot write /dev/full: the disk is full" in done.stderr
    done = broker.warrenctl("backup", str(tmp_path / "none" / "file"))
    assert done.returncode == 69 and "there is no such file or folder" in done.stderr


def test_a_killed_broker_leaves_no_backup(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        fill(broker)
        process = stalled(broker)
        assert process.stdout is not None and select.select([process.stdout], [], [], 60)[0]
        broker.kill()
        out, err = process.communicate()
        assert process.returncode == 69 and b"it has ended its answer too early" in err
        done = subprocess.run(command_line("restore", "--check", "-"), input=out, capture_output=True)
        assert done.returncode == 65 and b"nothing was restored" in done.stderr


def test_a_broker_in_memory_has_nothing_to_back_up(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, memory=True) as broker:
        done = broker.warrenctl("backup", str(tmp_path / "file"))
    assert done.returncode == 69 and "this broker keeps everything in memory (--memory)" in done.stderr


def test_a_stopped_restore_leaves_nothing(broker: BrokerProcess, tmp_path: Path) -> None:
    file, new = tmp_path / "backup.tar", tmp_path / "new"
    assert broker.warrenctl("backup", str(file)).returncode == 0
    reading, writing = os.pipe()
    process = subprocess.Popen(command_line("restore", "-", "--data", str(new)), stdin=reading)
    os.write(writing, file.read_bytes()[: 32 << 10])
    until(new.exists)
    until(lambda: (new / "meta.sqlite").exists())
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert not new.exists()
    os.close(reading)
    os.close(writing)
