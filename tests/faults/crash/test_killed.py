"""kill -9 at random moments under load, repeatedly on the same data.

WARREN_CRASH_ROUNDS is the number of kills (3, and 1 in the gate). WARREN_CRASH_SEED repeats what the clients of a run
sent and when the broker was killed, as far as the machine allows.
"""

import os
import random
import time

import pytest

from tests.support.amqp_client import Client, Content
from tests.support.broker_process import BrokerProcess

from . import clients
from .clients import BARRIER, COPIES, FANOUT, QUEUES, SOLO
from .conftest import check_sound
from .ledger import Ledger

ROUNDS = int(os.environ.get("WARREN_CRASH_ROUNDS") or 3)
SEED = os.environ.get("WARREN_CRASH_SEED")
PUBLISHERS = 8
LEAST_CONFIRMED = 100  # in a round, or it has shown nothing
CONFIRMED_S = 20  # that this takes at most, where others use the disk


def declare(client: Client) -> None:
    channel = client.channel()
    channel.exchange(FANOUT, "fanout", durable=True)
    for queue in (*QUEUES, BARRIER):
        channel.declare(queue, durable=True)
    for queue in COPIES:
        channel.bind(queue, FANOUT)


def load(daemon: BrokerProcess, ledger: Ledger, dice: random.Random, round_: int) -> list[clients.Worker]:
    """Start the clients."""
    workers: list[clients.Worker] = []
    for number in range(PUBLISHERS):
        kind = clients.Committer if number == 0 else clients.Publisher
        workers.append(kind(daemon.connect(), ledger, dice.getrandbits(32), round_, number))
    workers.append(clients.Consumer(daemon.connect(), ledger, dice.getrandbits(32), SOLO[0]))
    workers.append(clients.Consumer(daemon.connect(), ledger, dice.getrandbits(32), COPIES[0]))
    workers.append(clients.CommittingConsumer(daemon.connect(), ledger, dice.getrandbits(32), SOLO[1]))
    for worker in workers:
        worker.start()
    return workers


def drain(client: Client, ledger: Ledger, queue: str) -> None:
    """Take all messages of a queue and check them."""
    channel = client.channel()
    count = channel.count(queue)
    channel.transact()
    channel.consume(queue)
    came: list[Content] = channel.deliveries(count)
    ledger.check(queue, came)
    bodies = [content.body for content in came]
    ledger.delivered[queue].update(bodies)
    ledger.acked[queue].update(bodies)
    if came:
        channel.ack(came[-1].tag, multiple=True)
    channel.commit()
    ledger.surely_acked[queue].update(bodies)
    channel.nothing(queue)
    channel.close()


def restart(daemon: BrokerProcess, dice: random.Random) -> float:
    """Start the broker again; now and then it is killed once more during recovery."""
    sync = dice.choice(["fsync", "os"])
    if dice.random() < 0.3:
        daemon.launch("--sync", sync)
        time.sleep(dice.uniform(0.05, 0.4))
        daemon.kill()
    return daemon.start("--sync", sync)


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("daemon", "rounds"),
    [
        ("folder", 1),
        pytest.param("folder", ROUNDS, marks=pytest.mark.rest("more rounds")),
        pytest.param("postgresql", ROUNDS, marks=pytest.mark.rest("more rounds")),
    ],
    indirect=["daemon"],
)
@pytest.mark.timeout(60 + 15 * ROUNDS)
def test_nothing_confirmed_is_lost_and_nothing_acknowledged_comes_back(daemon: BrokerProcess, rounds: int) -> None:
    seed = int(SEED) if SEED else random.SystemRandom().getrandbits(32)
    print(f"\nWARREN_CRASH_SEED={seed}")
    dice = random.Random(seed)
    ledger = Ledger(QUEUES)
    daemon.start("--sync", dice.choice(["fsync", "os"]))
    declare(daemon.connect())
    for round_ in range(rounds):
        before = ledger.count("confirmed")
        workers = load(daemon, ledger, dice, round_)
        until_s = time.monotonic() + CONFIRMED_S
        while ledger.count("confirmed") - before < LEAST_CONFIRMED and time.monotonic() < until_s:
            time.sleep(0.02)
        time.sleep(dice.uniform(0.3, 1.5 if rounds > 1 else 0.7))
        daemon.kill()
        for worker in workers:
            worker.join(20)
            assert "end of stream" in worker.ended, f"{type(worker).__name__}: {worker.ended}"
        ready_s = restart(daemon, dice)
        client = daemon.connect()
        for queue in QUEUES:
            if queue != "kept" or round_ == rounds - 1:
                drain(client, ledger, queue)
        client.close()
        confirmed = ledger.count("confirmed") - before
        print(
            f"round {round_}: {confirmed} copies confirmed; {ledger.count('delivered')} delivered in all, "
            f"{ledger.duplicates} again, {ledger.unflagged} of these unmarked; ready in {ready_s:.2f} s"
        )
        assert confirmed >= LEAST_CONFIRMED
    assert ledger.unflagged == 0
    check_sound(daemon)
