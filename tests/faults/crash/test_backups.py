"""Backups of a broker at random moments under load, each restored, and compared with what its clients know.

WARREN_CRASH_ROUNDS is the number of backups (3). WARREN_CRASH_SEED repeats what the clients sent.
"""

import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.broker_process import WARRENCTL, BrokerProcess, command_line, run

from . import clients
from .clients import COPIES, QUEUES, SOLO
from .conftest import check_sound
from .ledger import Ledger
from .test_killed import CONFIRMED_S, LEAST_CONFIRMED, ROUNDS, SEED, declare, drain

MOST = 10_000  # publishes of a client for a backup, which is longer the more there is, and slow on a busy machine


def load(
    daemon: BrokerProcess, ledger: Ledger, dice: random.Random
) -> tuple[list[clients.Publisher], list[clients.Worker]]:
    """Start clients and return those that publish, and all. Few publish: each backup has all that nobody consumes."""
    publishers: list[clients.Publisher] = []
    for number, kind in enumerate((clients.Committer, clients.Publisher)):
        publisher = kind(daemon.connect(), ledger, dice.getrandbits(32), 0, number)
        publisher.most = MOST
        publishers.append(publisher)
    workers: list[clients.Worker] = [*publishers]
    for queue in (SOLO[0], COPIES[0]):
        workers.append(clients.Consumer(daemon.connect(), ledger, dice.getrandbits(32), queue))
    workers.append(clients.CommittingConsumer(daemon.connect(), ledger, dice.getrandbits(32), SOLO[1]))
    for worker in workers:
        worker.start()
    return publishers, workers


def noted(ledger: Ledger) -> Ledger:
    """Return a ledger with what is known now."""
    copy = Ledger(ledger.queues)
    for kind in ("published", "transient", "confirmed", "delivered", "acked", "surely_acked"):
        setattr(copy, kind, {queue: set(bodies) for queue, bodies in getattr(ledger, kind).items()})
    return copy


def expected(before: Ledger, after: Ledger) -> Ledger:
    """Return what a broker has to have that is restored from a backup, which was taken between these moments."""
    made = noted(after)
    made.confirmed, made.surely_acked = before.confirmed, before.surely_acked
    return made


@pytest.mark.sockets
@pytest.mark.rest("starts a broker for each backup")
@pytest.mark.parametrize("daemon", ["folder", "postgresql"], indirect=True)
@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_a_backup_has_what_was_confirmed_and_not_what_was_acknowledged(daemon: BrokerProcess, tmp_path: Path) -> None:
    seed = int(SEED) if SEED else random.SystemRandom().getrandbits(32)
    print(f"\nWARREN_CRASH_SEED={seed}")
    dice = random.Random(seed)
    ledger = Ledger(QUEUES)
    daemon.start("--sync", dice.choice(["fsync", "os"]))
    declare(daemon.connect())
    publishers, workers = load(daemon, ledger, dice)
    checked = []
    for round_ in range(ROUNDS):
        until_s = time.monotonic() + CONFIRMED_S
        while ledger.count("confirmed") < LEAST_CONFIRMED and time.monotonic() < until_s:
            time.sleep(0.02)
        time.sleep(dice.uniform(0, 1))
        file = tmp_path / f"backup-{round_}.tar"
        before = noted(ledger)
        for publisher in publishers:
            publisher.most += MOST
        line = command_line("--data", str(daemon.data), "backup", str(file), module=WARRENCTL)
        taken = subprocess.run(line, capture_output=True)
        assert taken.returncode == 0, taken.stderr
        checked.append((file, expected(before, noted(ledger))))
        assert before.count("confirmed") >= LEAST_CONFIRMED
    assert all(worker.is_alive() for worker in workers), [worker.ended for worker in workers]
    daemon.kill()
    for number, (file, wanted) in enumerate(checked):
        restored = BrokerProcess(tmp_path / f"restored-{number}")
        try:
            print(f"a backup of {file.stat().st_size} bytes, {wanted.count('confirmed')} copies confirmed before")
            done = run("restore", str(file), "--data", str(restored.data))
            assert done.returncode == 0, done.stderr
            restored.start()
            client = restored.connect()
            for queue in QUEUES:
                drain(client, wanted, queue)
            client.close()
            check_sound(restored)
        finally:
            restored.close()
