"""A store on PostgreSQL loses nothing that was confirmed, and no former owner confirms what is not there.

Each seed is a few brokers, one after the other, with a store on a simulated server. A broker is killed, stops cleanly,
gives up, or is taken over at any moment while it works, and goes on. `make sim` runs 10,000 seeds (seeds.py).
"""

import errno
from copy import copy, deepcopy
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.journal_process import JournalProcess, World
from tests.faults.simulation.metadata import MemoryMetadata
from tests.faults.simulation.model import Entry, Queue, check
from tests.faults.simulation.postgresql import (
    SimulatedDatabase,
    SimulatedServer,
    SimulatedTables,
    SimulatedTransactions,
)
from tests.faults.simulation.seeds import SEEDS, each_seed
from tests.faults.simulation.test_journal import sizes
from warren.broker.core.metadata.records import Change
from warren.broker.storage.postgresql.metadata import PostgreSQLMetadata
from warren.broker.storage.postgresql.transactions import NOT_OWNER, UNREACHABLE

__all__ = ["sizes"]  # the fixture

# The ends of brokers, and their weights.
ENDS = {"kill": 2, "stopped": 3, "taken over": 4, "close": 1}


class Metadata(MemoryMetadata):
    """The metadata of a broker, of which `queues` are those that there were when it started."""

    def __init__(self, stored: PostgreSQLMetadata) -> None:
        super().__init__()
        self._stored = stored
        loaded = stored.load()
        self.queues = {queue.number for queue in loaded.queues}
        self.highest = loaded.next_queue - 1

    def apply(self, changes: list[Change]) -> None:
        self._stored.apply(changes)

    def sync(self) -> None:
        self._stored.sync()

    def power_loss(self, random: Random) -> None:
        raise AssertionError("the server has it")


class Broker(JournalProcess):
    """A broker that has just taken the store over."""

    def __init__(self, world: World, server: SimulatedServer) -> None:
        epoch, commits = server.take_over()
        self.database = SimulatedDatabase(server)
        retry_s = world.random.choice((0, 30, 1000))
        self.transactions = SimulatedTransactions(self.database, epoch, commits, retry_s, lambda: len(world.trace))
        world.disk = SimulatedTables(self.database, self.transactions)  # type: ignore[assignment]
        world.metadata = Metadata(PostgreSQLMetadata(self.database, self.transactions))
        super().__init__(world)
        self.journal.reader.now_s = lambda: len(world.trace)
        self.former = False  # another broker has taken over

    def _take(self, entries: list[Entry], queue: int) -> None:
        if not self.former:  # the next owner may have dropped the segment
            super()._take(entries, queue)


def start(world: World, server: SimulatedServer, durable: int) -> Broker:
    """Start a broker, maybe after others that were stopped while they started."""
    random = world.random
    while random.random() < 0.2:
        interrupted = Broker(world, server)
        interrupted.database.stop_after = random.randrange(2)
        world.trace.append("a start is interrupted")
        try:
            interrupted.journal.recover(set(world.metadata.queues))
        except Stopped:
            pass
        except OSError as error:
            assert error.errno == UNREACHABLE or "could not be reached" in str(error), error
    server.calm()
    broker = Broker(world, server)
    broker.start(durable)
    return broker


def work(broker: Broker, steps: int) -> str:
    """Take steps, and return how the broker ended, or "" if it goes on."""
    try:
        broker.run(steps)
    except Stopped:
        return "stopped"
    except OSError as error:
        assert error.errno in (NOT_OWNER, errno.EIO), error
        if error.errno == errno.EIO:
            assert "could not be reached" in str(error)
            return "gave up"
        return "not owner"
    return ""


def found(queue: Queue) -> list[int]:
    return [entry.number for entry in queue.entries]


def copied(queues: dict[int, Queue]) -> dict[int, Queue]:
    """Return a copy of the model's queues. Compiled messages do not support deepcopy."""
    messages = [entry.message for queue in queues.values() for entry in queue.entries if entry.message is not None]
    return deepcopy(queues, {id(message): message.copy_with_record() for message in messages})


def replaced(world: World, server: SimulatedServer, former: Broker) -> tuple[World, Broker, str]:
    """Take the store over from a broker that does not know, and that goes on for a while beside its successor.

    Return the world of the successor, which sees nothing of what the former owner does, and the end of it, if any.
    """
    random, durable = world.random, former.journal.durable
    after = copy(world)
    after.queues = copied(world.queues)
    world.trace.append(f"taken over when {durable} was durable")
    broker = start(after, server, durable)
    there = {number: found(queue) for number, queue in after.queues.items()}
    before = copied(world.queues)
    server.faults = random.choice((0.0, 0.1, 0.5))
    former.former = True
    ended = successor_ended = ""
    for _ in range(random.choice((1, 5, 50))):
        if random.random() < 0.5:
            world.trace.append("the former owner:")
            ended = ended or work(former, random.choice((1, 5)))
        else:
            world.trace.append("the owner:")
            successor_ended = successor_ended or work(broker, random.choice((1, 5)))
    # What it has confirmed since is there, as it was committed before it was replaced.
    for number, queue in before.items():
        if number in there:
            check(queue, there[number], former.journal.durable)
        else:
            assert queue.declared > former.journal.durable or queue.deleted is not None, f"queue {number} is LOST"
    return after, broker, successor_ended


def simulate(world: World, server: SimulatedServer) -> None:
    random, durable = world.random, 0
    broker = start(world, server, durable)
    for _ in range(random.randint(3, 6)):
        server.faults = random.choice((0.0, 0.05, 0.3))
        end = random.choices(list(ENDS), list(ENDS.values()))[0]
        if end == "stopped":
            broker.database.stop_after = random.randrange(20)
        ended = work(broker, random.choice((0, 5, 40, 150)))
        if end == "taken over" and not ended:
            world, broker, ended = replaced(world, server, broker)
        elif end == "close" and not ended:
            server.calm()
            broker.finish()
        if end != "taken over" or ended:
            durable = broker.journal.durable
            world.trace.append(f"end by {ended or end}, {durable} durable")
            if random.random() < 0.3:
                server.fail_over()
            broker = start(world, server, durable)
    server.calm()
    broker.finish()
    last = start(world, server, broker.journal.durable)
    assert not last.journal.report, "nothing is torn or damaged"


@each_seed(World, SEEDS // 2)
def test_stops_and_takeovers_at_any_moment(world: World) -> None:
    stop_at_any_moment(world)


@pytest.mark.rest("runs more seeds")
@each_seed(World, SEEDS // 2, after=SEEDS // 2)
def test_stops_and_takeovers_at_any_moment_with_more_seeds(world: World) -> None:
    stop_at_any_moment(world)


def stop_at_any_moment(world: World) -> None:
    assert isinstance(world.disk, SimulatedDisk) and isinstance(world.disk.random, Random)
    world.backups = None  # whole brokers take those of a server
    simulate(world, SimulatedServer(world.random, world.trace.append))
