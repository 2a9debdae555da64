"""Kills, power losses, and files that are cut, damaged or missing at the next start."""

import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path

from tests.faults.crash import test_restarted
from tests.faults.crash.clients import QUEUES
from tests.faults.crash.ledger import Ledger
from tests.faults.crash.test_killed import declare, drain, load
from tests.support.amqp_client import Client
from tests.support.broker_process import BrokerProcess, NotStarted, command_line, environment_of
from tests.support.polling import until
from tests.unit.storage.test_recovery import records_of
from tools.bench.process import Broker
from tools.failover.figures import QUORUM
from tools.failover.figures import fill as fill_backlog
from tools.failover.outcome import Outcome, suite

from .clients import WINDOW, fill, take_all
from .faults import inject, injected, strace
from .scenario import Lab, Scenario, Timed, both

RESTART_S, MILLION_S = 2.0, 10.0
BACKLOG = 100_000
FILES = shutil.ignore_patterns("*.sock", "lock", "reserve")
SOUND, DAMAGED, REFUSED = 0, 1, 69


# 1, 2: kill -9 and power loss


def killed(lab: Lab) -> Outcome:
    rounds, ready_s = lab.count(10), []
    broker, ledger = lab.started(), Ledger(QUEUES)
    declare(broker.connect())
    for number in range(rounds):
        workers = load(broker, ledger, lab.dice, number)
        time.sleep(lab.dice.uniform(0.2, 0.8))
        broker.kill()
        for worker in workers:
            worker.join(20)
            assert "end of stream" in worker.ended, worker.ended
        ready_s.append(broker.start())
        client = broker.connect()
        for queue in QUEUES:
            drain(client, ledger, queue)
        client.close()
    empty_s = max(ready_s)
    count = lab.count(BACKLOG)
    fill_backlog(Broker("warren", broker.port), count)
    broker.kill()
    backlog_s = broker.start()
    kept = broker.connect().channel().count(QUORUM.queue(0))
    return Timed(
        kept == count and not ledger.unflagged,
        f"{rounds} kills, {ledger.count('confirmed'):,} copies confirmed, 0 lost, {ledger.duplicates:,} redelivered,"
        f" {ledger.unflagged} of them not flagged; ready in at most {empty_s:.2f} s, with a backlog of {count:,} in"
        f" {backlog_s:.2f} s with {count - kept} missing",
        empty_s <= RESTART_S and backlog_s <= MILLION_S,
    )


def power_loss(lab: Lab) -> Outcome:
    seeds = lab.count(300)
    words = ["tests/faults/simulation/test_journal.py", "tests/faults/simulation/test_node.py"]
    found = suite(*words, WARREN_SIM_SEEDS=str(seeds))
    return Outcome(
        found.holds, f"{seeds} seeds of the journal and {seeds // 5} of the node on a simulated disk: {found.text}"
    )


# 3 to 5: the files at the next start


class Folder:
    """The data folder of an ended broker, whose copies are damaged, and the messages of its queues."""

    def __init__(self, lab: Lab, clean: bool, bodies: dict[str, list[bytes]], window: int = WINDOW) -> None:
        self.lab, self.bodies = lab, bodies
        broker = lab.started()
        for queue, of_queue in bodies.items():
            fill(broker, queue, of_queue, window)
        broker.stop() if clean else broker.kill()
        self.base = broker.data

    def copy(self) -> BrokerProcess:
        """Return a broker on a copy of the folder, not started."""
        broker = self.lab.broker()
        shutil.copytree(self.base, broker.data, ignore=FILES)
        return broker


def segments(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data / "log").glob("*.log"))


def restarted_twice(broker: BrokerProcess, expected: list[bytes], queue: str = "q") -> None:
    """Start, check the messages, publish another one, kill, start, and check again; the broker is then closed."""
    broker.start()
    fill(broker, queue, [b"after the first start"])
    broker.kill()
    broker.start()
    came = take_all(broker, queue)
    broker.close()
    wanted = [*expected, b"after the first start"]
    assert came == wanted, f"{len(set(wanted) - set(came))} lost, {len(came)} came in place of {len(wanted)}"


def torn(lab: Lab) -> Outcome:
    bodies = [b"message %d " % number + b"x" * 20 for number in range(30)]
    folder = Folder(lab, False, {"q": bodies}, 1)  # so that each is a batch, which is kept or dropped completely
    data = segments(folder.copy())[0].read_bytes()
    records = records_of(data)
    begin, end = records[-2][0], records[-1][1]
    rounds = lab.count(8, 4)
    cuts = sorted({begin, end - 1, *(lab.dice.randrange(begin, end) for _ in range(rounds))})
    for cut in cuts:
        broker = folder.copy()
        segments(broker)[0].write_bytes(data[:cut])
        restarted_twice(broker, bodies[: sum(stop <= cut for _, stop in records)])
    for tail in (bytes(8192), lab.dice.randbytes(5000)):
        broker = folder.copy()
        segments(broker)[0].write_bytes(data[:end] + tail)
        restarted_twice(broker, bodies)
    every = suite("tests/unit/storage/test_recovery.py", "-k", "cut_off or end_that_means")
    return both(
        Outcome(True, f"{len(cuts)} cuts of the last 2 records, zeros and garbage at the end, each started twice: only"
                      " what was cut is missing"), every)  # fmt: skip


def flipped(lab: Lab) -> Outcome:
    bodies = {queue: [b"%s %d " % (queue.encode(), n) + bytes(2000) for n in range(100)] for queue in ("q", "r")}
    folder = Folder(lab, True, bodies)
    rounds, lost_each = lab.count(8), []
    for _ in range(rounds):
        broker = folder.copy()
        segment = segments(broker)[0]
        data = bytearray(segment.read_bytes())
        at = lab.dice.randrange(len(data))
        data[at] ^= 1 << lab.dice.randrange(8)
        segment.write_bytes(data)
        status = broker.doctor().returncode
        assert status == DAMAGED, f"doctor says {status} of a bit flip at {at}"
        broker.start()
        damage = [line for line in broker.log_lines() if line["level"] in ("warning", "error")]
        assert damage, f"nothing is logged of a bit flip at {at}"
        lost = 0
        for queue, of_queue in bodies.items():
            came = take_all(broker, queue)
            lost += len(set(of_queue) - set(came))
            assert came == [body for body in of_queue if body in set(came)], f"order of {queue}, bit flip at {at}"
        lost_each.append(lost)
        broker.close()
    return Outcome(
        max(lost_each) <= 1,
        f"{rounds} flips at random bytes: doctor says 1 and the log names each, {sum(lost_each)} messages lost, at most"
        f" {max(lost_each)} by a flip, others served in their order",
    )


def orphans(lab: Lab) -> Outcome:
    return suite("tests/unit/storage/test_recovery.py::test_orphan_acks_are_ignored")


# 23 to 25


def across_frames(lab: Lab) -> Outcome:
    for frame_max in (4096, 131072):
        broker = lab.broker()
        test_restarted.test_messages_of_many_frames_in_ten_queues_are_the_same_to_the_byte(
            broker, partial(_restart, broker), frame_max
        )
        broker.close()
    return Outcome(True, "6 sizes up to 1.5 MB in ten queues, frames of 4,096 and 131,072 bytes, killed: same bytes")


def _restart(broker: BrokerProcess) -> Client:
    broker.kill()
    broker.start()
    return broker.connect()


COPY_CALLS = 100  # system calls of a small copy that write
CALLS = "pwrite64,fdatasync,fsync,rename,unlink,ftruncate"


def definitions(lab: Lab) -> Outcome:
    """Kill the broker at system call N of an import that replaces objects."""
    steps, torn_states, at = 0, [], 1
    old, new = {f"old{n}" for n in range(20)}, {f"new{n}" for n in range(20)}
    broker = lab.broker()
    while True:
        shutil.rmtree(broker.data, ignore_errors=True)
        broker.start()
        assert broker.http().post("/definitions", _queues(old)).status == 204
        for name in list(old)[:2]:
            assert broker.http().delete(f"/queues/%2f/{name}").status == 204
        before = old - set(list(old)[:2])
        with injected(broker.process.pid, CALLS, f"signal=KILL:when={at}") as tracer:
            status = _post(broker, _queues(new))
            ended = until(lambda: tracer.poll() is not None, "the kill", 1.0) if status is None else False
        if not ended and broker.process.poll() is None:
            broker.close()
            break
        broker.close()
        broker.start()
        there = {queue["name"] for queue in broker.http().get("/queues").json}
        if there not in (before, before | new):
            torn_states.append(f"call {at}: {len(there & new)} of {len(new)} new, {len(before - there)} old missing")
        broker.close()
        steps += 1
        at += max(round(1 / lab.scale), 1)
    return Outcome(
        not torn_states and steps > 0,
        f"killed at {steps} system calls that write, of an import of 20 queues after two deletions: "
        + (
            "the old or the new state each time, nothing deleted was back"
            if not torn_states
            else "; ".join(torn_states)
        ),
    )


def _queues(names: set[str]) -> dict[str, object]:
    return {"queues": [{"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
                       for name in sorted(names)]}  # fmt: skip


def _post(broker: BrokerProcess, body: object) -> int | None:
    try:
        return broker.http().post("/definitions", body).status
    except (OSError, HTTPException):
        return None


# Proofs beside the numbered scenarios


def interrupted_copy(lab: Lab) -> Outcome:
    bodies = [b"%d " % number + bytes(2000) for number in range(2000)]
    folder = Folder(lab, True, {"q": bodies})
    before = _contents(folder.base)
    refused = whole = empty = 0
    rounds = lab.count(6, 3)
    for number in range(rounds):
        target = lab.folder / f"target{number}"
        copying = command_line("copy", "--from", str(folder.base), "--to", str(target))
        kill = f"signal=KILL:when={1 + number * COPY_CALLS // rounds}"
        line = strace(*inject(f"write,{CALLS}", kill), *copying)
        subprocess.run(
            line, cwd=lab.folder, env=environment_of(lab.folder), capture_output=True, check=False, timeout=60
        )
        broker = lab.broker()
        if target.exists():
            shutil.copytree(target, broker.data, ignore=FILES)
        begun = (broker.data / "log").exists()
        sound = broker.doctor().returncode == SOUND
        try:
            broker.start()
        except NotStarted:
            assert begun and not sound, "a target is refused that doctor says is sound"
            refused += 1
            continue
        came = take_all(broker, "q") if broker.http().get("/queues").json else []
        broker.close()
        assert came == (bodies if begun else []), f"a part of a copy is served: {len(came)} of {len(bodies)} messages"
        whole, empty = whole + begun, empty + (not begun)
    unchanged = before == _contents(folder.base)
    return Outcome(
        unchanged and refused > 0,
        f"{rounds} copies killed at a system call: before anything was copied {empty} times, then the target is refused"
        f" {refused} times and complete {whole} times; the source is {'unchanged' if unchanged else 'CHANGED'}",
    )


def _contents(folder: Path) -> dict[Path, bytes]:
    """Return the files of a data folder that are not empty, except those of the process that has it open."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", "meta.sqlite-shm"))
    return {path: data for path in found if (data := path.read_bytes())}


Damage = Callable[[BrokerProcess], object]


def _zero(broker: BrokerProcess) -> None:
    with segments(broker)[0].open("r+b") as file:
        file.seek(65536)
        file.write(bytes(65536))


def _checkpoint(broker: BrokerProcess) -> None:
    (broker.data / "log" / "checkpoint").write_bytes(b"damaged")


def _metadata(broker: BrokerProcess) -> None:
    with (broker.data / "meta.sqlite").open("r+b") as file:
        file.write(b"damaged " * 64)


def corrupted(lab: Lab) -> Outcome:
    bodies = [b"%d " % number + bytes(2000) for number in range(200)]
    folder = Folder(lab, True, {"q": bodies})
    texts = []
    for name, damage, most in (("64 KiB of zeros in a segment", _zero, 40), ("a damaged checkpoint", _checkpoint, 0)):
        broker = folder.copy()
        damage(broker)
        status = broker.doctor().returncode
        broker.start()
        logged = [line for line in broker.log_lines() if line["level"] in ("warning", "error")]
        came = take_all(broker, "q")
        lost = len(bodies) - len(came)
        assert status == DAMAGED and logged, f"{name}: doctor {status}, {len(logged)} lines in the log"
        assert 0 <= lost <= most and came == [body for body in bodies if body in set(came)], f"{name}: {lost} lost"
        broker.close()
        texts.append(f"{name}: doctor {status}, logged, {lost} lost")
    broker = folder.copy()
    _metadata(broker)
    status = broker.doctor().returncode
    broker.launch()
    ended = broker.wait()
    lines = broker.output.read_text().splitlines()
    assert (status, ended, len(lines)) == (DAMAGED, REFUSED, 1), f"damaged meta.sqlite: doctor {status}, start {ended}"
    return Outcome(True, "; ".join([*texts, f"damaged meta.sqlite: doctor {status}, start refused with {ended}"]))


def truncated(lab: Lab) -> Outcome:
    bodies = [b"%d " % number + bytes(100) for number in range(900)]
    folder = Folder(lab, True, {"q": bodies})
    (segment,) = (folder.base / "log").glob("*.log")
    data = segment.read_bytes()
    half = len(data) // 2
    before = sum(stop <= half for _, stop in records_of(data))
    cuts: dict[str, tuple[Damage, int]] = {
        "half": (lambda one: segments(one)[-1].write_bytes(data[:half]), before),
        "empty": (lambda one: segments(one)[-1].write_bytes(b""), 0),
        "removed": (lambda one: segments(one)[-1].unlink(), 0),
    }
    texts = []
    for name, (cut, kept) in cuts.items():
        broker = folder.copy()
        cut(broker)
        status = broker.doctor().returncode
        broker.start()
        logged = len([line for line in broker.log_lines() if line["level"] in ("warning", "error")])
        old = take_all(broker, "q")
        fill(broker, "q", [b"new %d" % number for number in range(900)])
        broker.kill()
        broker.start()
        new = len(take_all(broker, "q"))
        broker.close()
        assert status == DAMAGED and logged, f"{name}: doctor {status}, {logged} lines in the log"
        assert old == bodies[:kept], f"{name}: {len(old)} came of {kept} before the cut"
        assert new == 900, f"{name}: {900 - new} of 900 new messages lost"
        texts.append(
            f"{name}: doctor {status}, logged, {900 - kept} of 900 gone, none before the cut, 0 of 900 new ones lost"
        )
    return Outcome(True, "last segment " + "; ".join(texts))


SCENARIOS = (
    Scenario(1, "kill -9 under load",
             "8 publishers, 100 rounds: 0 confirmed lost, repeats flagged; restart <= 2 s, with 1M messages <= 10 s",
             killed, "10 rounds, a backlog of 100,000"),
    Scenario(2, "power loss on a simulated disk", "10,000 seeds: 0 confirmed lost", power_loss, "300 and 60 seeds"),
    Scenario(3, "torn end of the log",
             "every byte of the last 2 records, zeros, garbage; started twice: only the torn end is dropped",
             torn, "8 of the bytes by processes, every byte in one process"),
    Scenario(4, "bit flip in a segment", "detected and logged; one record lost, later ones served", flipped,
             "8 random bytes"),
    Scenario(5, "messages older than their acks", "orphan acks are ignored", orphans),
    Scenario(24, "messages of many frames to ten queues", "same bytes after a restart", across_frames),
    Scenario(25, "kill at each system call of an import", "old or new state; deleted objects do not return",
             definitions),
    Scenario(32, "interrupted warren copy", "the source is unchanged, and an incomplete target is not served",
             interrupted_copy, "6 kills"),
    Scenario(33, "damaged files", "reported by doctor and log; the rest is served, or the start refused", corrupted),
    Scenario(34, "last segment cut after a clean stop",
             "doctor says 1, the log says so; messages before the cut and new ones survive", truncated),
)  # fmt: skip
