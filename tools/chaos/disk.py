"""Failing and full disks under load."""

import subprocess
import time
from pathlib import Path

from tests.support.broker_process import BrokerProcess, command_line, environment_of
from tests.support.polling import until
from tools.failover.outcome import Outcome

from .clients import Flood, numbers, take_all
from .faults import fill, free_bytes, inject, injected, small_disk, strace
from .scenario import Lab, Scenario, Timed
from .syncs import WORDS, Syncs

FAILED = 74
SOUND_CALLS = 30  # calls of each thread before they fail
SLOW_US = 50_000  # the time of a failing call, in which a confirm that does not wait for it arrives
IN_FLIGHT_S = 0.1  # the time in which a confirm from before the fault arrives
FAULT_S = 2.0
WITHIN_S = 20.0
DISK_MIB = 160
LIMIT_BYTES = 20_000_000
BODY_BYTES = 20_000


def failing(lab: Lab) -> Outcome:
    """Errors of calls: some end the broker, after others it continues."""
    texts, slowest_s = [], 0.0
    for calls, error in (("fdatasync", "EIO"), ("pwrite64", "EIO"), ("fdatasync", "ENOSPC")):
        broker, flood = _flooded(lab)
        log = lab.folder / "strace"
        effect = f"error={error}:delay_enter={SLOW_US}:when={SOUND_CALLS + 1}+"
        with injected(broker.process.pid, calls, effect, "-o", str(log), *WORDS):
            status = broker.wait(WITHIN_S)
            ended_s = time.time()
        flood.end()
        syncs = Syncs(log.read_text())
        assert syncs.failed_s is not None, f"no {calls} failed"
        took_s = ended_s - syncs.failed_s
        slowest_s = max(slowest_s, took_s)
        forgotten = syncs.forget()
        lost = _lost(broker, flood)
        assert (status, lost) == (FAILED, 0), f"{error} of {calls}: status {status}, {lost} confirmed and not synced"
        texts.append(f"{error} of {calls}: status {status} after {took_s:.1f} s, {forgotten:,} unsynced bytes dropped")
    for error in ("ENOSPC", "EDQUOT"):
        broker, flood = _flooded(lab)
        with injected(broker.process.pid, "pwrite64", f"error={error}", "-P", str(_first_segment(broker))):
            began_s = time.monotonic()
            time.sleep(FAULT_S)
        ended_s = time.monotonic()
        until(lambda flood=flood, since=ended_s: flood.last_confirm_s > since, broker.tail, WITHIN_S)
        flood.end()
        late = len(flood.confirmed_between(began_s + IN_FLIGHT_S, ended_s))
        back_s = min(flood.confirmed_between(ended_s, time.monotonic())) - ended_s
        broker.kill()
        lost = _lost(broker, flood)
        assert not late and not lost, f"{error} of pwrite: {late} confirmed meanwhile, {lost} lost"
        texts.append(f"{error} of pwrite64 on the log: 0 confirmed meanwhile, resumed {back_s:.1f} s after it")
    return Timed(True, "; ".join(texts) + "; 0 confirmed lost", slowest_s <= 1)


def _flooded(lab: Lab, queue: str = "q") -> tuple[BrokerProcess, Flood]:
    broker = lab.started()
    flood = Flood(broker.port, queue)
    flood.start()
    until(lambda: len(flood.confirmed) > 500, "confirms")
    return broker, flood


def _first_segment(broker: BrokerProcess) -> Path:
    return broker.data / "log" / "00000001.log"


def _lost(broker: BrokerProcess, flood: Flood) -> int:
    """Start the broker again, take all messages, and return the number of missing confirmed ones."""
    broker.start()
    came = set(numbers(take_all(broker, "q")))
    broker.close()
    return len(set(flood.confirmed) - came)


def at_a_stop(lab: Lab) -> Outcome:
    texts = []
    for calls in ("rename", "fsync", "unlink"):
        broker, flood = _flooded(lab)
        flood.end()
        with injected(broker.process.pid, calls, "error=EIO"):
            broker.process.terminate()
            status = broker.wait()
        traceback = "Traceback" in broker.tail()
        lost = _lost(broker, flood)
        assert status in (0, FAILED) and not traceback and not lost, f"EIO of {calls}: {status}, {lost} lost"
        texts.append(f"EIO of {calls} at a stop: status {status}")
    for calls in ("pread64", "fdatasync"):
        broker, flood = _flooded(lab)
        flood.end()
        broker.kill()
        started = _start_with(broker, calls, lab.folder)
        lost = _lost(broker, flood)
        assert not lost, f"EIO of {calls} at a start: {lost} lost"
        texts.append(f"EIO of {calls} at a start: {started}")
    return Outcome(True, "; ".join(texts) + "; 0 confirmed lost")


def _start_with(broker: BrokerProcess, calls: str, folder: Path) -> str:
    """Start a broker whose calls fail, and return its end. Raises AssertionError if it serves."""
    line = command_line("serve", "--data", str(broker.data), "--amqp", "127.0.0.1:0")
    traced = strace(*inject(calls, "error=EIO"), "-P", str(_first_segment(broker)), *line)
    try:
        done = subprocess.run(
            traced,
            cwd=folder,
            env=environment_of(folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
    except subprocess.TimeoutExpired as served:
        raise AssertionError(f"EIO of {calls} at a start: it serves") from served
    assert done.returncode == 69 and len(done.stderr.splitlines()) == 1, f"{done.returncode}: {done.stderr[-200:]}"
    return "status 69, one line"


def filling(lab: Lab) -> Outcome:
    """A flood fills a small disk down to `disk_free_limit`; then it is consumed."""
    with small_disk(lab.folder / "small", DISK_MIB) as disk, _on(lab, disk) as broker:
        flood = Flood(broker.port, "q", BODY_BYTES)
        flood.start()
        low_s = until(lambda: free_bytes(disk) < LIMIT_BYTES and time.monotonic(), "a full disk", 60.0, 0.002)
        until(lambda: flood.blocked_s, "connection.blocked", WITHIN_S)
        assert flood.blocked_s is not None
        blocked_s = max(flood.blocked_s - low_s, 0.0)
        least = free_bytes(disk)
        came = numbers(take_all(broker, "q"))
        roomy_s = until(lambda: free_bytes(disk) > LIMIT_BYTES and time.monotonic(), "space", WITHIN_S)
        until(lambda: flood.unblocked_s, "connection.unblocked", WITHIN_S)
        assert flood.unblocked_s is not None
        unblocked_s = max(flood.unblocked_s - roomy_s, 0.0)
        flood.end()
        came += numbers(take_all(broker, "q"))
    lost = set(flood.confirmed) - set(came)
    return Timed(
        not lost and least > 0,
        f"{DISK_MIB} MiB: blocked {blocked_s:.2f} s after {LIMIT_BYTES / 1e6:.0f} MB were free, with"
        f" {least / 1e6:.1f} MB left; consuming went on, unblocked {unblocked_s:.2f} s after there was space;"
        f" {len(lost)} of {len(flood.confirmed):,} confirmed lost",
        blocked_s <= 1 and unblocked_s <= 2,
    )


def _on(lab: Lab, disk: Path) -> BrokerProcess:
    """Return a broker, not started, with its data on this disk."""
    return lab.broker("--data", str(disk / "data"), settings=(f"disk_free_limit.absolute = {LIMIT_BYTES}",), data=None)


def full(lab: Lab) -> Outcome:
    """Another process takes the last byte."""
    texts = []
    for how in ("consuming", "purge_queue", "delete_queue"):
        with small_disk(lab.folder / how, DISK_MIB) as disk, _on(lab, disk) as broker:
            flood = Flood(broker.port, "q", BODY_BYTES)
            flood.start()
            until(lambda flood=flood: flood.blocked_s, "connection.blocked", 60.0)
            fill(disk)
            began_s = time.monotonic()
            came = numbers(take_all(broker, "q")) if how == "consuming" else []
            if how != "consuming":
                done = broker.warrenctl(how, "q")
                assert done.returncode == 0, done.stderr
            until(lambda disk=disk: free_bytes(disk) > LIMIT_BYTES, lambda: f"{free_bytes(disk)} bytes free", WITHIN_S)
            took_s = time.monotonic() - began_s
            flood.end()
            if how == "consuming":
                came += numbers(take_all(broker, "q"))
                lost = set(flood.confirmed) - set(came)
                assert not lost, f"{len(lost)} confirmed lost"
            texts.append(f"{how} freed {free_bytes(disk) / 1e6:.0f} MB in {took_s:.1f} s")
    return Outcome(True, "; ".join(texts))


SCENARIOS = (
    Scenario(6, "EIO and ENOSPC under load",
             "EIO: nothing more confirmed, status != 0 within 1 s; ENOSPC: held, resumes, 0 confirmed lost", failing),
    Scenario(7, "disk fills at full rate",
             "blocked <= 1 s, before it is full; consumers go on; unblocked <= 2 s after there is space", filling),
    Scenario(35, "disk full to the last byte", "consuming, purging and deleting get space without a restart", full),
    Scenario(36, "EIO at a stop and at a start", "0 or 74 at a stop, 69 and one line at a start; 0 lost", at_a_stop),
)  # fmt: skip
