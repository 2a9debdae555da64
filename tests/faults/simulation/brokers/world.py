"""A world: brokers, their links, a network, clients and operators, which all follow from one seed.

A world is a list of steps, each with a seed of its own, so that a run can be repeated without some of them. After the
last step everything is repaired, and all messages are consumed.
"""

import errno
import heapq
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

import pytest
from pamqp.commands import Connection, Exchange, Queue

from tests.faults.simulation.brokers import features
from tests.faults.simulation.brokers.accounts import check_accounts
from tests.faults.simulation.brokers.backups import TakenBackup
from tests.faults.simulation.brokers.broker import Broker, Exited, Process, task_done
from tests.faults.simulation.brokers.clients import Consumer, Operator, Peer, Publisher, Transactor
from tests.faults.simulation.brokers.exported import Boot, check_exports
from tests.faults.simulation.brokers.features import EXTRA, SPREAD
from tests.faults.simulation.brokers.links import EXCHANGE, POLICIES, QUEUE, Edge, Federation
from tests.faults.simulation.brokers.loop import TURN_S, SimulatedLoop, VirtualTime
from tests.faults.simulation.brokers.model import Copy, Model
from tests.faults.simulation.brokers.network import Network
from tests.faults.simulation.brokers.remote_store import RemoteStore, watched
from tests.faults.simulation.brokers.writers import Exports, WriterProcess
from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.postgresql import SimulatedServer
from tests.support.amqp_client import Channel
from warren.broker.core.jobs import scheduler
from warren.broker.core.telemetry.resource_alarms import LONG_BYTES, STORE
from warren.broker.net import fair_turns
from warren.broker.session import connection
from warren.plugins.message_log.export import exporter, name_codes, queue_runs, sampling, snapshots, writer

TIMED = {"x-message-ttl": 3000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
AT_LEAST_ONCE = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
RETURNED = AT_LEAST_ONCE | {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "timed"}
LENGTHS = (1, 3, 20)  # of queues that refuse what is beyond
BODY_BYTES = (0, 20, 300, 1200, 9000)
START_S, QUIET_S = 60.0, 300.0  # the longest time until all is ready, and until all is consumed
BOUND_S = 5.0  # until all links have bound a queue that was declared again
REPAIRED_S = 12.0  # after the repair, links have noticed that their connections were lost
CALM_S = 3.0  # longer than links take to connect again, and to notice what they lack
EXPORTING = 0.15  # the share of worlds in which all brokers export
BACKING_UP = 0.15  # that of worlds that take backups
REMOTE = 0.2  # and of those in which their stores are on PostgreSQL
NOTICED_S = 8.0  # within which a broker notices that its store does not answer
TURNS = 200_000  # of a run; more would be a loop without an end

# The steps that a run is made of, and their weights
STEPS = {"publish": 37, "stream": 3, "settle": 25, "wait": 25, "consume": 3, "connect": 6}
CHANGES = {"policy": 4, "redeclare": 2}
FAULTS: dict[str, dict[str, int]] = {
    "none": {},
    "network": {"cut": 8, "flap": 4, "stall": 4, "slow": 2, "leave": 4},
    "processes": {"kill": 5, "stop": 2, "die": 4, "step_clock": 1},
    "disks": {"fail": 3, "fill": 3, "die": 2},
}
LOSSES = ("fail_over", "lose_server", "replace", "stand_by", *2 * ("isolate", "suspend"))  # of stores on PostgreSQL
FAULTS["all"] = FAULTS["network"] | FAULTS["processes"] | FAULTS["disks"]


def set_small_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make turns and steps short, so that few messages take the paths of very many, unless they are compiled."""
    monkeypatch.setattr(scheduler, "TURN_COST", 100)
    monkeypatch.setattr(scheduler, "PUMP_LIMIT", 20)
    monkeypatch.setattr(fair_turns, "TURN_S", 0.0002)
    monkeypatch.setattr(connection, "AT_ONCE_COST", 20)
    monkeypatch.setattr(connection, "STEP_COST", 10)
    monkeypatch.setattr(exporter, "SLICE", 2)
    monkeypatch.setattr(name_codes, "MOST_BYTES", 20_000)
    monkeypatch.setattr(queue_runs, "LIMIT", 3)
    monkeypatch.setattr(queue_runs, "SHORTEST", 2)
    monkeypatch.setattr(sampling, "TOGETHER", 3)
    monkeypatch.setattr(snapshots, "SLICE", 2)
    monkeypatch.setattr(writer, "GROUP_ROWS", 200)


def properties_of(number: int) -> dict[str, object]:
    """Return properties for a message: none for one of three, so that some have no headers at all."""
    if number % 3 == 0:
        return {}
    headers = {"number": number, "path": [{"name": "x" * (number % 5)}], "none": None}
    return {"headers": headers, "content_type": "text/plain", "correlation_id": str(number), "app_id": "simulation"}


def bind_with_long_arguments(channel: Channel) -> None:
    """Bind a queue to an exchange that nobody publishes to, which waits while the disk is full."""
    channel.send(Queue.Bind, queue=QUEUE, exchange="amq.headers", arguments={"note": 2 * LONG_BYTES * "x"})


class Step(NamedTuple):
    """A step of a run: its name and its own seed."""

    name: str
    seed: int


class World:
    """A world. `kept` are the numbers of the steps to run, or None for all."""

    def __init__(self, seed: int, kept: Sequence[int] | None = None) -> None:
        random = Random(seed)
        self.seed = seed
        self.trace: list[str] = []
        self.federation = Federation.draw(random)
        self.queues = self._draw_queues(random)
        self.faults = random.choice(["none", "network", "network", "processes", "processes", "disks", "all", "all"])
        weights = STEPS | FAULTS[self.faults] | (CHANGES if random.random() < 0.3 else {})
        names = random.choices(list(weights), list(weights.values()), k=random.choice((20, 40, 80)))
        steps = [Step(name, random.getrandbits(32)) for name in names]
        own = Random(f"exports {seed}")  # of its own, so that other worlds stay as they are
        exporting = own.random() < EXPORTING
        full = "x-max-length" in self.queues["dead"]
        self.feature = features.draw(Random(f"feature {seed}"), exporting, full)
        if self.feature is not None:
            self.queues |= self.feature.queues
        remote_random = Random(f"remote {seed}")  # likewise
        remote = remote_random.random() < REMOTE
        if remote and self.faults != "none":
            for _ in range(remote_random.choice((1, 3, 6))):
                name = remote_random.choice(LOSSES)
                steps.insert(remote_random.randrange(len(steps) + 1), Step(name, remote_random.getrandbits(32)))
        if exporting and self.faults in ("processes", "all"):
            for _ in range(own.choice((0, 0, 1, 3))):
                steps.insert(own.randrange(len(steps) + 1), Step("end_writer", own.getrandbits(32)))
        if exporting and self.faults in ("disks", "all") and own.random() < 0.5:
            steps.insert(own.randrange(len(steps) + 1), Step("fill_exports", own.getrandbits(32)))
        if self.feature is not None and self.feature.name == "policies":
            for _ in range(random.choice((3, 10))):
                steps.insert(random.randrange(len(steps) + 1), Step("tune", random.getrandbits(32)))
        backing_up = Random(f"backups {seed}")  # likewise
        if backing_up.random() < BACKING_UP:
            for _ in range(backing_up.choice((1, 3, 6))):
                steps.insert(backing_up.randrange(len(steps) + 1), Step("back_up", backing_up.getrandbits(32)))
        self.steps = [(number, steps[number]) for number in (range(len(steps)) if kept is None else kept)]
        self.prefetch = random.choice((1, 3, 20))
        self.random = Random(random.getrandbits(64))
        self.time = VirtualTime(Random(random.getrandbits(64)))
        self.network = Network(self.time, self.random)
        self.model = Model(("timed", "late", QUEUE) if self.federation.cyclic else ("timed", "late"))
        self.client_loop = SimulatedLoop("clients", self.time, self.random, self.network)
        self.loops = [self.client_loop]
        self.exports = Exports(own, self.time, self.note) if exporting else None
        self.brokers: dict[str, Broker] = {}
        for name in self.federation.brokers:
            store = RemoteStore(remote_random, lambda: self.time.now_s, self.note, not exporting) if remote else None
            self.brokers[name] = Broker(name, self.random, self.network, self.note, self.exports, store)
        self.boots: list[Boot] = []
        self._backups: list[TakenBackup] = []  # under way
        self._ending = False  # processes that end are not started again
        self.publishers: dict[str, Publisher] = {}
        self.consumers: dict[str, Consumer] = {}
        self.left: list[Consumer] = []  # that have closed their sockets
        self.peers: list[Peer] = []  # all so far
        if "x-dead-letter-strategy" in self.queues["timed"]:
            self.model.again = ("timed", "late")
        self.transactors: dict[str, Transactor] = {}
        self._due_s = 0.0  # when the last delayed message is due
        self.bound = [queue for queue in ("sink", "twin") if queue in self.queues]  # to the exchange
        self._calm_s = 0.0  # when any broker had a message last
        self._repaired_s = 0.0  # when all links have noticed the repair
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._broken_links = 0
        self._number = count()
        self._turns = 0
        self._looked = -1  # `_turns` when the accounts were checked last

    def _draw_queues(self, random: Random) -> dict[str, dict[str, object]]:
        """Return the queues of each broker, with their arguments.

        In some worlds one queue refuses messages: `sink`, whose messages from links `twin` must not get meanwhile, as
        they come again; or the one that dead letters of `timed` are for, with the strategy at-least-once.
        """
        queues: dict[str, dict[str, object]] = {"sink": {}, QUEUE: {}, "timed": {**TIMED}, "dead": {}}
        limit = {"x-max-length": random.choice(LENGTHS), "x-overflow": "reject-publish"}
        kind = random.random()
        if kind < 0.15:
            queues |= {"sink": limit, "twin": {}}
        elif kind < 0.3:
            queues |= {"timed": TIMED | AT_LEAST_ONCE, "dead": limit}
        elif kind < 0.45:
            queues |= {"timed": RETURNED | limit}
        return queues

    def note(self, line: str) -> None:
        self.trace.append(f"{self.time.now_s - 1000:9.4f} {line}")

    # Time

    def run(self, seconds: float) -> None:
        """Turn the loops until this time has passed."""
        time, draw, end_s = self.time, self.random.random, self.time.now_s + seconds
        self._look_again()
        while (now_s := time.now_s) < end_s:
            ready, next_s = [], inf
            for loop in self.loops:
                if loop.changed:
                    loop.changed, loop.next_s = False, loop.due_s
                if loop.next_s <= now_s:
                    ready.append(loop)
                elif loop.next_s < next_s:
                    next_s = loop.next_s
            if ready:
                loop = ready[int(draw() * len(ready))]
                loop.changed = True
                self._turn(loop)
                time.now_s += TURN_S * draw()
                continue
            if self._later and self._later[0][0] <= min(next_s, end_s):
                time.now_s, _, function = heapq.heappop(self._later)
                function()
                self._look_again()
            else:
                time.now_s = min(next_s, end_s)

    def _look_again(self) -> None:
        """Anything may have happened to any loop."""
        for loop in self.loops:
            loop.changed = True

    def run_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        end_s = self.time.now_s + seconds
        while not condition():
            assert self.time.now_s < end_s, f"not within {seconds} s: {what}"
            self.run(0.2)

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._later, (self.time.now_s + seconds, next(self._number), function))

    def _turn(self, loop: SimulatedLoop) -> None:
        self._turns += 1
        assert self._turns < TURNS, "the loops never rest"
        try:
            loop.turn()
        except Exited:
            loop.dead = True
        if loop.errors:
            raise loop.errors[0]
        if loop.dead:
            broker = self.brokers[loop.name]
            if broker.process is None or broker.process.loop is not loop:
                self._left(broker, loop)
                return
            self._ended(broker, not broker.process.stopped and self.random.random() < 0.5, False)
            self._look_again()

    # Processes

    def start(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.process is not None:
            return
        self.note(f"start {name}")
        loop = SimulatedLoop(name, self.time, self.random, self.network)
        self.loops.append(loop)
        broker.start(loop)
        self.boots.append(Boot(broker.name, loop))

    def _ended(self, broker: Broker, power: bool, silently: bool) -> None:
        """A process has ended, and another one starts in a while."""
        assert broker.process is not None
        clean = broker.process.stopped
        self.loops.remove(broker.process.loop)
        self.note(f"{broker.name} has {'stopped' if clean else 'ended'}{', power cut' if power else ''}")
        self._broken_all(broker.name, lossy=not clean)
        if self.exports is not None:
            self._finish_exports(broker, power)
        (boot,) = [each for each in self.boots if each.process is broker.process.loop]
        boot.ended = "stop" if clean else "power" if power else "kill"
        boot.ended_s = self.time.now_s
        boot.asleep_from_s, boot.asleep_s = boot.process.asleep_from_s, boot.process.asleep_s
        if power and self.exports is not None:  # writers of earlier boots have not finished their files either
            unfinished = [writer.process for writer in self.exports.of(broker)]
            for each in self.boots:
                if each.process in unfinished:
                    each.ended = "power"
        disk = broker.disk
        broker.end(power, silently)
        if isinstance(disk, SimulatedDisk) and (power or disk.torn):
            # The log may have a dead letter without the record that settles its original.
            self.model.again = ("timed", "late")
        if not self._ending:
            self.later(self.random.choice((0.0, 0.1, 2.0, 10.0)), lambda: self.start(broker.name))

    def _left(self, broker: Broker, loop: SimulatedLoop) -> None:
        """A standby has ended, or a process whose store another one has."""
        (process,) = [each for each in broker.processes() if each.loop is loop]
        self.note(f"a former owner of {broker.name} has ended")
        self._broken_all(broker.name, lossy=True)
        self.loops.remove(loop)
        if process is broker.standby:
            broker.standby = None
        else:
            broker.former.remove(process)
        broker.bury(process, False)
        self._look_again()

    def _finish_exports(self, broker: Broker, power: bool) -> None:
        """Let the writers of a process that has ended finish their files in a while, unless there is no power."""
        assert self.exports is not None
        for process in self.exports.of(broker) if not power else ():

            def finish(process: WriterProcess = process) -> None:
                if not process.finish():
                    self.later(writer.LOCK_LOOK_S, finish)

            self.later(self.exports.random.choice((0.0, 0.05, 1.0)), finish)

    def _broken(self, edge: Edge, lossy: bool = False) -> None:
        """The connections of the links of these brokers may break; `lossy`: the downstream may lose what it took."""
        mode = self.federation.ack_mode
        self.model.faults = True
        self._broken_links += 2
        if mode == "no-ack" or mode == "on-publish" and lossy:
            self.model.uncertain.add(edge)

    def _broken_between(self, edge: Edge) -> None:
        """The connections between two brokers may break, in both directions."""
        for each in self.federation.edges:
            if set(each) == set(edge):
                self._broken(each)

    def _broken_all(self, name: str, lossy: bool = False) -> None:
        """The connections of all links from and to a broker break."""
        for edge in self.federation.edges:
            if name in edge:
                self._broken(edge, lossy and edge[1] == name)

    def process(self, name: str) -> Process | None:
        """The process of a broker, if it serves."""
        process = self.brokers[name].process
        return process if process is not None and process.serving and not process.loop.dead else None

    def serving(self) -> list[tuple[str, Process]]:
        named = [(name, self.process(name)) for name in self.brokers]
        return [(name, process) for name, process in named if process is not None]

    # The beginning

    def begin(self) -> None:
        """Start all brokers and clients, and declare what they need."""
        for name in self.brokers:
            self.start(name)
        self.run_until(lambda: len(self.serving()) == len(self.brokers), START_S, "all brokers serve")
        for name in self.brokers:
            self.declare(name)
        self.run(0.5)
        for name, process in self.serving():
            process.act(lambda name=name, process=process: self.federation.define(process, name))
        self.run_until(self.links_run, START_S, "all links run")
        self.run_until(self._stored, START_S, "all is stored")
        for name in self.brokers:
            self.connect(name)

    def declare(self, name: str) -> None:
        """Declare all queues and exchanges of a broker."""
        federation = self.federation
        if f"sink@{name}" in self.model.deleted:
            self.model.deleted[f"sink@{name}"] = self.time.now_s

        def send(channel: Channel) -> None:
            channel.send(Exchange.Declare, exchange=EXCHANGE, exchange_type=federation.exchange_type, durable=True)
            for queue, arguments in self.queues.items():
                channel.send(Queue.Declare, queue=queue, durable=True, arguments=arguments)
            for queue in self.bound:
                channel.send(Queue.Bind, queue=queue, exchange=EXCHANGE, routing_key=federation.key)
            if self.feature is not None and self.feature.exchange is not None:
                kind, arguments = self.feature.exchange
                spread = {"exchange_type": kind, "durable": True, "arguments": arguments}
                channel.send(Exchange.Declare, exchange=SPREAD, **spread)
                for queue in self.feature.queues:
                    channel.send(Queue.Bind, queue=queue, exchange=SPREAD, routing_key="1")

        self.admin(name, send)

    def admin(self, name: str, send: Callable[[Channel], None]) -> None:
        """Send requests on a connection of their own, without waiting for replies."""
        with suppress(ConnectionRefusedError):
            peer = self._peer(Operator, name)
            send(peer.open_channel())
            peer.client.send(Connection.Close, reply_code=200)

    def _peer(self, kind: type, name: str, **options: object):
        peer = kind(self.client_loop, self.network, name, self.model, self.note, **options)
        self.peers.append(peer)
        return peer

    def _places(self, name: str) -> dict[str, str]:
        """Return by queue of a broker the place of its copies."""
        places = {queue: f"{queue}@{name}" for queue in self.queues}
        places |= {QUEUE: QUEUE, "dead": f"timed@{name}"}
        if self.feature is not None:
            places |= dict.fromkeys(self.feature.queues, f"{self.feature.place}@{name}")
        return places

    def connect(self, name: str) -> None:
        """Connect the clients of a broker that are not connected."""
        places = self._places(name)
        with suppress(ConnectionRefusedError):
            if name not in self.publishers or not self.publishers[name].connected:
                self.publishers[name] = self._peer(Publisher, name)
            if name not in self.consumers or not self.consumers[name].connected:
                options = {"places": places, "prefetch": self.prefetch, "feature": self.feature}
                self.consumers[name] = self._peer(Consumer, name, **options)
            if self.transacts and (name not in self.transactors or not self.transactors[name].connected):
                self.transactors[name] = self._peer(Transactor, name)

    @property
    def transacts(self) -> bool:
        return self.feature is not None and self.feature.name == "transactions"

    def links_run(self) -> bool:
        serving = self.serving()
        return len(serving) == len(self.brokers) and all(self.federation.running(each, name) for name, each in serving)

    def _stored(self) -> bool:
        return all(process.all_stored for _, process in self.serving())

    # Steps

    def live(self) -> None:
        """Run all steps, and then consume all messages."""
        exporting = self.exports.installed() if self.exports is not None else nullcontext()
        with self.time.installed(), watched(self.random), exporting:
            try:
                self.begin()
                for number, step in self.steps:
                    self.note(f"--- step {number}: {step.name}")
                    getattr(self, f"step_{step.name}")(Random(step.seed))
                    self.look()
                self.drain()
                if self.exports is not None:
                    self.stop_all()
                    check_exports(self.exports, self.boots, self.peers, self.queues)
            finally:
                self.close()

    def look(self) -> None:
        """Check what holds at any time, and note what is certain by now."""
        turned, self._looked = self._turns != self._looked, self._turns
        for name, process in self.serving():
            if turned:
                check_accounts(process)
            for consumer in [*self.consumers.values(), *self.left]:
                if consumer.broker == name and process.all_stored:
                    consumer.note_stored(process.loop)
        complete = {edge for edge in self.federation.edges if self._complete(edge)}
        self.model.disturbed -= complete
        for place, since_s in list(self.model.deleted.items()):
            process = self.process(place.partition("@")[2])
            bound = process is not None and process.all_stored and self.federation.has_sink(process)
            if bound and len(complete) == len(self.federation.edges) and self.time.now_s > since_s + BOUND_S:
                del self.model.deleted[place]

    def _complete(self, edge: Edge) -> bool:
        """Whether an exchange link has all that it needs, and nothing is on its way between its brokers."""
        upstream, downstream = self.process(edge[0]), self.process(edge[1])
        ends = [*self.network.between(*edge), *self.network.between(edge[1], edge[0])]
        if upstream is None or downstream is None or self.brokers[edge[1]].former or any(end.incoming for end in ends):
            return False
        return self.federation.complete(upstream, downstream, edge)

    def _any(self, random: Random) -> str:
        return random.choice(list(self.brokers))

    def publish(self, name: str, random: Random) -> None:
        """Publish a message at a broker, if its publisher is connected."""
        publisher = self.publishers.get(name)
        if publisher is None or not publisher.connected:
            return
        extra = (EXTRA, EXTRA) if self.feature is not None else ()
        target = random.choice((EXCHANGE, EXCHANGE, QUEUE, QUEUE, "timed", *extra))
        if target == EXTRA and self.transacts:
            self.transact(name, random)
            return
        number = self.model.bodies = self.model.bodies + 1
        body = b"%d:" % number + bytes(random.choice(BODY_BYTES))
        origin = publisher.identity, number
        properties = properties_of(number)
        message_id = str(number) if self.exports is not None and self.exports.random.random() < 0.2 else None
        if target == EXCHANGE:
            paths = self.federation.paths(name)
            ways = [(f"{queue}@{there}", path) for there, path in paths.items() for queue in self.bound]
            copies = [Copy(place, number, body, origin, path) for place, path in ways]
            refusable = any(self._refuses(queue) for queue in self.bound)
            publisher.publish(EXCHANGE, self.federation.key, body, copies, message_id, properties, refusable)
        elif target == EXTRA and self.feature is not None:
            own = self.feature.properties(random)
            copy = Copy(f"{self.feature.place}@{name}", number, body, origin)
            copy.priority = min(3, own.get("priority", 0))
            copy.due_s = self.time.now_s + own.get("headers", {}).get("x-delay", 0) / 1000
            headers = properties.get("headers", {}) | own.get("headers", {})
            properties |= own | ({"headers": headers} if headers else {})
            self._due_s, copies = max(self._due_s, copy.due_s), [copy]
            exchange = SPREAD if self.feature.exchange is not None else ""
            publisher.publish(exchange, self.feature.key(random), body, copies, message_id, properties)
        else:
            links = self.federation.edges if target == QUEUE else ()
            copies = [Copy(QUEUE if links else f"timed@{name}", number, body, origin, links)]
            publisher.publish("", target, body, copies, message_id, properties, self._refuses(target))
        for copy in copies:
            self.model.add(copy)
        self.note(f"publish {number} to {target} at {name}")

    def _refuses(self, queue: str) -> bool:
        """Whether a queue refuses messages when it is full."""
        return "x-max-length" in self.queues[queue]

    def transact(self, name: str, random: Random) -> None:
        """Publish some messages in a transaction, and commit it or roll it back."""
        transactor, commit = self.transactors.get(name), random.random() < 0.7
        if transactor is None or not transactor.connected:
            return
        copies = []
        for _ in range(random.choice((1, 2, 5))):
            number = self.model.bodies = self.model.bodies + 1
            body = b"%d:" % number + bytes(random.choice(BODY_BYTES))
            copies.append(Copy(f"{EXTRA}@{name}", number, body, (transactor.identity, number)))
        transactor.publish(EXTRA, copies, commit)
        self.note(f"{'commit' if commit else 'roll back'} {[copy.number for copy in copies]} at {name}")

    def step_publish(self, random: Random) -> None:
        name = self._any(random)
        for _ in range(random.choice((1, 1, 3, 10, 40))):
            self.publish(name, random)

    def step_stream(self, random: Random) -> None:
        """Publish during the next second, whatever happens meanwhile."""
        name = self._any(random)
        for _ in range(50):
            self.later(random.random(), lambda: self.publish(name, random))

    def step_settle(self, random: Random) -> None:
        consumer = self.consumers.get(self._any(random))
        if consumer is not None and consumer.connected:
            consumer.settle(random.choice((1, 5, 50)), random)

    def step_wait(self, random: Random) -> None:
        self.run(random.choice((0.001, 0.01, 0.1, 0.5, 2.0, 5.0)))

    def step_consume(self, random: Random) -> None:
        """Cancel a consumer, or start it again."""
        consumer = self.consumers.get(self._any(random))
        if consumer is not None and consumer.connected:
            consumer.toggle(random.choice(consumer.channels))

    def step_connect(self, random: Random) -> None:
        for name in self.brokers:
            self.connect(name)

    # Faults

    def step_cut(self, random: Random) -> None:
        """Cut one connection of a client, or one of a link."""
        edge = random.choice(self.federation.edges)
        if random.random() < 0.3:
            name = self._any(random)
            ends = [each.end for each in (self.consumers.get(name), self.publishers.get(name)) if each is not None]
            self.model.faults = True
        else:
            ends = self.network.between(*edge)
            self._broken_between(edge)
        if ends:
            self.network.cut(random.choice(ends))

    def step_leave(self, random: Random) -> None:
        """Let a consumer settle deliveries and close its socket, without a word: they are settled nevertheless."""
        name = self._any(random)
        consumer = self.consumers.get(name)
        if consumer is not None and consumer.connected:
            del self.consumers[name]
            self.model.faults = True
            consumer.settle(50, random)
            consumer.end.close()
            self.left.append(consumer)

    def step_flap(self, random: Random) -> None:
        """Cut the links between two brokers again and again while they connect."""
        edge = random.choice(self.federation.edges)

        def cut() -> None:
            self._broken_between(edge)
            for end in self.network.between(*edge):
                self.network.cut(end)

        for _ in range(6):
            self.later(random.random(), cut)

    def step_stall(self, random: Random) -> None:
        edge = random.choice(self.federation.edges)
        seconds = random.choice((0.5, 2.0, 20.0))
        self.note(f"nothing arrives between {' and '.join(edge)} for {seconds} s")
        self.network.stall(*edge, seconds)
        self._broken_between(edge)

    def step_slow(self, random: Random) -> None:
        self.network.slow_s = random.choice((0.001, 0.05, 0.5))

    def step_kill(self, random: Random) -> None:
        broker = self.brokers[self._any(random)]
        if broker.process is not None:
            self._ended(broker, random.random() < 0.5, random.random() < 0.3)

    def step_die(self, random: Random) -> None:
        """Kill a process at one of its next calls to the disk, perhaps by a power cut."""
        self.brokers[self._any(random)].fail_after(random.randrange(40), None)

    def step_stop(self, random: Random) -> None:
        process = self.process(self._any(random))
        if process is not None and not process.stopping:
            self.note(f"stop {process.broker.name}")
            self._broken_all(process.broker.name)
            process.stopping = process.loop.create_task(process.stop())
            process.stopping.add_done_callback(partial(task_done, process))

    def step_fail(self, random: Random) -> None:
        self.brokers[self._any(random)].fail_after(random.randrange(40), errno.EIO)

    def step_fill(self, random: Random) -> None:
        broker = self.brokers[name := self._any(random)]
        broker.disk.limit_bytes = broker.disk.used_bytes + random.randrange(3000)
        self.note(f"the disk of {broker.name} is nearly full")

        def clear() -> None:
            broker.disk.limit_bytes = None

        self.later(seconds := random.choice((1.0, 5.0, 20.0)), clear)
        self.later(seconds * random.random(), lambda: self.admin(name, bind_with_long_arguments))

    def _server(self, random: Random) -> SimulatedServer:
        """Return the PostgreSQL of a broker, whose links may be suspended while it does not answer."""
        name = self._any(random)
        store = self.brokers[name].remote
        for edge in self.federation.edges:
            if edge[1] == name:
                self._broken(edge)
        return store.server

    def step_fail_over(self, random: Random) -> None:
        """Lose the primary of a broker's PostgreSQL."""
        self._server(random).fail_over()

    def step_lose_server(self, random: Random) -> None:
        """Let commits fail for a while, or their answers be lost."""
        server = self._server(random)
        server.faults = random.choice((0.1, 0.3, 0.3, 1.0))
        self.later(random.choice((0.5, 5.0, 40.0)), server.calm)

    def step_replace(self, random: Random) -> None:
        """Let another broker own a store for a moment: the one that does not know ends when it commits, or looks."""
        store = self.brokers[self._any(random)].remote
        store.replace()

    def step_stand_by(self, random: Random) -> None:
        """Let another process wait for the store of a broker."""
        self._stand_by(self._any(random))

    def _stand_by(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.standby is None and self.exports is None:
            loop = SimulatedLoop(broker.name, self.time, self.random, self.network)
            self.loops.append(loop)
            self.boots.append(Boot(broker.name, loop))
            broker.start_standby(loop)

    def step_isolate(self, random: Random) -> None:
        """Cut a broker off from its store, not from clients: publishers wait, and a standby takes over in the end."""
        name, seconds = self._any(random), random.choice((2.0, 8.0, 20.0))
        process = self.process(name)
        if process is None or process.remote is None:
            return
        self.note(f"{name} does not reach its store for {seconds} s")
        self._may_lose_store(name)
        process.remote.database.reachable = False
        self._go_on(name, seconds, random)
        if seconds >= NOTICED_S and not (process.ended or process.loop.dead or process.stopping):
            assert STORE in process.node.alarms.on(), f"{name} has no alarm without its store"
        process.remote.database.reachable = True

    def step_suspend(self, random: Random) -> None:
        """Stop the process of a broker for a while, as by SIGSTOP: it loses its store if that is long."""
        name, seconds = self._any(random), random.choice((1.0, 5.0, 15.0, 15.0))
        process = self.process(name)
        if process is not None:
            self._may_lose_store(name)

            def suspend() -> None:
                self.note(f"{name} stands still for {seconds} s")
                process.committer.synced = lambda: None
                process.loop.stand_still(seconds)

            if random.random() < 0.3:
                suspend()
            else:
                process.committer.synced = suspend  # what is stored is not confirmed yet
            self._go_on(name, seconds, random)

    def _go_on(self, name: str, seconds: float, random: Random) -> None:
        """Publish at a broker and its upstreams for a while."""
        for _ in range(4):
            for each in (name, *self.federation.upstreams(name)):
                self.connect(each)
                for _ in range(5):
                    self.publish(each, random)
            self.run(seconds / 4)

    def _may_lose_store(self, name: str) -> None:
        self._stand_by(name)
        self._broken_all(name, lossy=True)
        self.model.faults = True

    def step_end_writer(self, random: Random) -> None:
        """Kill the writer of an export, now or at a later sync of a file."""
        assert self.exports is not None
        running = [process for process in self.exports.writers if process.returncode is None]
        if running and random.random() < 0.5:
            random.choice(running).kill()
        else:
            self.exports.kill_later(random.randrange(10))

    def step_fill_exports(self, random: Random) -> None:
        assert self.exports is not None
        self.exports.fill()
        self.later(random.choice((1.0, 20.0)), self.exports.heal)

    def step_step_clock(self, random: Random) -> None:
        broker = self.brokers[self._any(random)]
        if self.feature is not None and self.feature.name == "delays":
            return  # after the next start messages would be due an hour later, or before
        broker.wall_s += random.choice((-3600.0, 3600.0))
        if broker.process is not None:
            broker.process.loop.wall_s = broker.wall_s

    # Operators

    def step_policy(self, random: Random) -> None:
        """Remove the policy of a broker's exchange or queue, or set it again."""
        edge = random.choice(self.federation.edges)
        process = self.process(edge[1])
        if process is None:
            return
        policy = random.choice(list(POLICIES))
        self.note(f"set or clear policy {policy} at {edge[1]}")
        for each in self.federation.edges:
            if each[1] == edge[1]:
                self._broken(each)
                if policy == "exchanges":
                    self.model.disturb(each)
        self._act(process, lambda: self.federation.toggle_policy(process, policy))
        if random.random() < 0.5:
            self.run(random.choice((0.06, 0.2)))  # after the link has begun to end
            if self.process(edge[1]) is process:
                self._act(process, lambda: self.federation.toggle_policy(process, policy))

    def step_tune(self, random: Random) -> None:
        """Set another policy of the queue `extra`, or clear it."""
        name, definition = self._any(random), random.choice((None, *features.POLICIES))
        process = self.process(name)
        if process is None:
            return
        policies = process.node.policies
        if definition is not None:
            self._act(process, lambda: policies.set("/", EXTRA, f"^{EXTRA}$", definition, 0, "queues"))
        elif any(each.name == EXTRA for each in policies.all("/")):
            self._act(process, lambda: policies.clear("/", EXTRA))

    def step_back_up(self, random: Random) -> None:
        """Take a backup of a broker, which is read while everything goes on."""
        process = self.process(self._any(random))
        if process is None or process.stopping or process.store.journal.backing_up or not process.owns_store:
            return
        self.look()
        self.note(f"a backup of {process.broker.name} begins")
        backup = TakenBackup(process, self.model, random)
        self._backups.append(backup)
        self._read_backup(backup)

    def _read_backup(self, backup: TakenBackup) -> None:
        process = backup.process
        if process.ended or process.loop.dead:
            self._backups.remove(backup)
            backup.leave()
            return
        self._act(process, backup.read)
        if not backup.ended:
            self.later(backup.random.choice((0.0, 0.001, 0.05)), lambda: self._read_backup(backup))
            return
        self._backups.remove(backup)
        name = process.broker.name
        lasting = {*self.queues} - {"sink"} if self.model.deleted else {*self.queues}
        self.note(f"a backup of {name} {backup.check(self._places(name), lasting)}")

    def _act(self, process: Process, change: Callable[[], object]) -> None:
        """Make a change as an operator. It may read messages, at which the process may be killed."""
        with suppress(Stopped):
            process.act(change)
        if process.loop.dead:
            self._turn(process.loop)

    def step_redeclare(self, random: Random) -> None:
        """Delete the queue of an exchange, which is declared again later."""
        name = self._any(random)
        if self.process(name) is None:
            return
        self.note(f"delete sink at {name}")
        self.model.faults = True
        self.model.delete(f"sink@{name}", self.time.now_s)
        self.admin(name, lambda channel: channel.send(Queue.Delete, queue="sink"))
        self.later(random.choice((0.0, 0.5, 3.0)), lambda: self.declare(name))

    # The end

    def drain(self) -> None:
        """Repair everything, and consume all messages."""
        self.note("--- the end")
        self.network.heal()
        if self.exports is not None:
            self.exports.heal()
        for broker in self.brokers.values():
            broker.heal()
        self.run_until(self._all_serve, START_S, "all brokers serve again")
        repaired_s = self.time.now_s
        self.run(1.0)  # what was sent before, such as the deletion of a queue, arrives
        for name, process in self.serving():
            process.act(lambda name=name, process=process: self.federation.define(process, name))
            self.declare(name)
        self.run_until(self._links_run_again, QUIET_S, "all links run again")
        self._calm_s = self.time.now_s
        self._repaired_s = repaired_s + (REPAIRED_S if self.model.faults or self._broken_links else 0.0)
        self.run_until(self._consumed, QUIET_S, "all messages are consumed")
        end_s = self.time.now_s + START_S
        while waiting := self._waiting():
            assert self.time.now_s < end_s, f"without an answer: {', '.join(waiting)}"
            self.run(0.2)
        self.run_until(lambda: not self._backups, QUIET_S, "all backups have ended")
        self.look()
        if any(process.remote is not None for _, process in self.serving()):
            # A worker that waits for another one tries again after a second here, so links may take long to start.
            self.run_until(self.links_run, START_S, "all links run")
        assert self.links_run(), "a link has failed without a fault"
        self.check_end()

    def _all_serve(self) -> bool:
        """Return whether no broker is down, or will be as its stop has begun or another one has its store."""
        serving = self.serving()
        former = any(broker.former for broker in self.brokers.values())
        ending = any(each.stopping or not each.owns_store for _, each in serving)
        return len(serving) == len(self.brokers) and not former and not ending

    def _links_run_again(self) -> bool:
        """Return whether all links run. One without acknowledgements starts once full queues have room."""
        if "twin" in self.queues:
            self._consumed()
        return self.links_run()

    def _consumed(self) -> bool:
        """Consume what has arrived; return whether nothing was anywhere for a while."""
        for name in self.brokers:
            self.connect(name)
            consumer = self.consumers[name]
            consumer.consume_all()
            consumer.settle(1 << 30, self.random, finally_=True)
        queues = [queue for _, process in self.serving() for queue in process.vhost.queues.values()]
        some = any(queue.ready or queue.unacked or len(queue.outbox) for queue in queues)
        blocked = any(self.federation.blocked(process) for _, process in self.serving())  # they try again soon
        if some or blocked or len(self.serving()) < len(self.brokers):
            self._calm_s = self.time.now_s
        return self.time.now_s > max(self._calm_s + CALM_S, self._repaired_s, self._due_s + BOUND_S)

    def _waiting(self) -> list[str]:
        """Return the publishes that are neither confirmed nor refused, and the requests without an answer."""
        serving = [process.loop for _, process in self.serving()]
        waiting = []
        for publisher in self.publishers.values():
            if publisher.connected and publisher.unconfirmed:
                waiting.append(f"publishes {list(publisher.unconfirmed)} at {publisher.broker}")
        for peer in self.peers:
            if peer.process in serving and (requests := peer.unanswered()):
                waiting.append(f"requests {requests} at {peer.broker}")
        return waiting

    def stop_all(self) -> None:
        """Stop all processes, and let all writers finish."""
        assert self.exports is not None
        self._ending = True
        for _, process in self.serving():
            process.stopping = process.loop.create_task(process.stop())
            process.stopping.add_done_callback(partial(task_done, process))
        writers = self.exports.writers
        self.run_until(lambda: not any(each.process for each in self.brokers.values()), START_S, "all have stopped")
        self.run_until(lambda: all(each.returncode is not None for each in writers), START_S, "all writers have ended")

    def check_end(self) -> None:
        lost = [f"{copy.number} of {copy.place}" for copy in self.model.lost()]
        assert not lost, f"messages are LOST: {', '.join(lost)}"
        for name, process in self.serving():
            assert not process.node.alarms.on(), f"{name} has the alarms {process.node.alarms.on()}"
            assert not process.node.ledger.queued_bytes, f"{name} counts memory of empty queues"
            live = sum(segment.live for segment in process.store.journal.segments.values())
            assert not live, f"the journal of {name} keeps {live} messages of empty queues"
            links = [each for each in process.server.connections.values() if each.client_name.startswith("Federation")]
            expected = 2 * sum(upstream == name for upstream, _ in self.federation.edges)
            assert len(links) == expected, f"{name} has {len(links)} connections of {expected} links"
        attempts = sum(process.attempts for _, process in self.serving())
        attempts += sum(broker.attempts for broker in self.brokers.values())
        breaks = attempts + self._broken_links
        repeated = self.model.repeated
        assert repeated <= breaks * self.federation.prefetch, f"{repeated} messages are repeated after {breaks} breaks"

    def close(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.end(False, True)
            for process in broker.processes():
                broker.bury(process, True)
        self.client_loop.bury()
