"""Short memory, clients that do not read, and floods that must not grow."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pamqp.commands import Basic

from tests.support.amqp_client import Channel, Content
from tests.support.broker_process import BrokerProcess
from tests.support.peer import SocketPeer
from tests.support.polling import until
from tools.bench.client import Connection
from tools.bench.generator import run
from tools.bench.loads import LOADS
from tools.bench.process import Broker, cpu_s, rss_bytes
from tools.failover.outcome import Outcome

from .clients import Flood, fill, take_all
from .probes import FORK, neighbour
from .scenario import Lab, Scenario, Timed

MIB = 1 << 20
LIMIT_MIB = 200
BODY_BYTES = 10_000
TRANSIENT = {"delivery_mode": 1}
BUSY = next(load for load in LOADS if load.letter == "A")
KIB = 1024
BURST = 250  # unroutable publishes in flight
WITHIN_S = 120.0


def alarm(lab: Lab) -> Outcome:
    """Publish without consumers to a broker that cannot page out, until publishers are blocked; then consume."""
    broker = lab.started(memory=True, settings=(f"vm_memory_high_watermark.absolute = {LIMIT_MIB}MiB",))
    pid, limit = broker.process.pid, LIMIT_MIB * MIB
    few = 2000
    fill(broker, "before", [bytes(BODY_BYTES)] * few * 3)
    freely_per_s = max(_rate(broker, "before", few) for _ in range(3))
    flood = Flood(broker.port, "q", BODY_BYTES, TRANSIENT)
    flood.start()
    above_s = until(lambda: rss_bytes(pid) >= limit and time.monotonic(), "the limit", WITHIN_S, 0.002)
    until(lambda: flood.blocked_s, "connection.blocked", WITHIN_S)
    assert flood.blocked_s is not None
    blocked_s = flood.blocked_s - above_s
    offered = flood.published * BODY_BYTES / limit
    peak = 0.0
    for _ in range(20):
        peak = max(peak, rss_bytes(pid) / limit)
        time.sleep(0.05)
    held_per_s = max(_rate(broker, "q", few) for _ in range(3))
    until(lambda: take_all(broker, "q") is not None and flood.unblocked_s, "connection.unblocked", WITHIN_S)
    flood.end()
    return Timed(
        peak <= 1.15 and broker.process.poll() is None,
        f"limit {LIMIT_MIB} MiB: resident at most {peak:.2f} times that, publishers blocked {blocked_s:.2f} s after it"
        f" with {offered:.1f} times the limit published; a consumer took {held_per_s:,.0f}/s, {freely_per_s:,.0f}/s"
        " without the alarm",
        blocked_s <= 1 and held_per_s >= 0.8 * freely_per_s,
    )


def _rate(broker: BrokerProcess, queue: str, count: int) -> float:
    """Return the rate at which a consumer takes and acknowledges messages."""
    client = broker.connect()
    channel = client.channel()
    channel.qos(200)
    began_s = time.perf_counter()
    channel.consume(queue)
    for number in range(1, count + 1):
        content = channel.delivery()
        if number % 50 == 0:
            channel.ack(content.tag, multiple=True)
    channel.sync()
    took_s = time.perf_counter() - began_s
    client.close()
    return count / took_s


@contextmanager
def slow_consumers(broker: BrokerProcess, queues: list[str]) -> Iterator[None]:
    """A context with consumers without a prefetch that read only the first KiB."""
    with ExitStack() as stack:
        for queue in queues:
            connection = Connection(broker.port)
            stack.callback(connection.socket.close)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.consume(queue, no_ack=False, prefetch=0)
            connection.socket.recv(KIB)
        yield


def slow(lab: Lab) -> Outcome:
    count, messages = 10, lab.count(5000)
    broker = lab.started()
    fast = Broker("warren", broker.port, broker.process.pid)
    queues = [f"slow{number}" for number in range(count)]
    client = broker.connect()
    channel = client.channel()
    for queue in queues:
        channel.declare(queue)
        for _ in range(messages):
            channel.publish("", queue, bytes(KIB), TRANSIENT)
        channel.sync()
    seconds = 3.0
    alone_per_s, beside_per_s, grown = [], [], 0
    for _ in range(2):
        alone_per_s.append(run(BUSY, fast, seconds, 0.5).received_per_s)
        before = rss_bytes(broker.process.pid)
        with slow_consumers(broker, queues):
            time.sleep(0.5)
            beside_per_s.append(run(BUSY, fast, seconds, 0.5).received_per_s)
            grown = max(grown, rss_bytes(broker.process.pid) - before)
    kept = max(beside_per_s) / max(alone_per_s)
    return Timed(
        grown < 50 * MIB,
        f"{count} consumers that read nothing after 1 KiB, {messages:,} messages of 1 KiB for each: load A keeps"
        f" {kept:.0%} ({max(alone_per_s):,.0f}/s alone), resident memory grew by {grown / MIB:.1f} MiB",
        kept >= 0.9,
    )


def unroutable(lab: Lab) -> Outcome:
    count = lab.count(50_000, 1000)
    broker = lab.started()
    client = broker.connect()
    channel = client.channel()
    channel.confirm()
    pid, lines = broker.process.pid, len(broker.log_lines())
    _returned(channel, 1000, 0)
    before, began_s, cpu = rss_bytes(pid), time.monotonic(), cpu_s(pid)
    _returned(channel, count, 1000)
    took_s, each_us = time.monotonic() - began_s, (cpu_s(pid) - cpu) / count * 1e6
    grown, logged = rss_bytes(pid) - before, len(broker.log_lines()) - lines
    return Outcome(
        grown < 8 * MIB and logged <= 2,
        f"{count:,} mandatory publishes with confirms at {count / took_s:,.0f}/s, as fast as this client reads,"
        f" {each_us:.0f} us of the broker's processor each: each returned before its ack, in order; memory grew by"
        f" {grown / MIB:.1f} MiB, {logged} lines of log",
    )


def _returned(channel: Channel, count: int, settled: int) -> None:
    """Publish unroutable messages in bursts; check that each is returned in order, and acknowledged after that."""
    returned, end = settled, settled + count
    while settled < end:
        upto = min(settled + BURST, end)
        for number in range(settled, upto):
            channel.publish("", "nowhere", b"%d" % number, mandatory=True)
        while settled < upto:
            item = channel.next()
            if isinstance(item, Content):
                assert item.body == b"%d" % returned, f"{item.body!r} was returned in place of {returned}"
                returned += 1
            else:
                assert isinstance(item, Basic.Ack) and (item.delivery_tag or 0) <= returned, "an ack before its return"
                settled = item.delivery_tag or 0


def poison(lab: Lab) -> Outcome:
    """A requeue loop beside load A, and messages that are rejected until the limit of a quorum queue."""
    cycles = lab.count(100_000, 1000)
    broker = lab.started()
    fast = Broker("warren", broker.port, broker.process.pid)
    alone_per_s = run(BUSY, fast, 3.0, 0.5).received_per_s
    client = broker.connect()
    channel = client.channel()
    channel.declare("loop")
    channel.fill("loop", b"poison")
    channel.qos(1)
    channel.consume("loop")
    cpu = cpu_s(broker.process.pid)
    for _ in range(cycles):
        channel.nack(channel.delivery().tag)
    each_us = (cpu_s(broker.process.pid) - cpu) / cycles * 1e6
    with looping(broker.port):
        beside_per_s = run(BUSY, fast, 3.0, 0.5).received_per_s
    tries = _tries(broker)
    kept = beside_per_s / alone_per_s
    return Timed(
        tries == 21,
        f"{cycles:,} requeues cost {each_us:.0f} us of processor each; load A keeps {kept:.0%} beside such a loop; a"
        f" message of a quorum queue with x-delivery-limit 20 was delivered {tries} times",
        kept >= 0.8,
    )


def _tries(broker: BrokerProcess) -> int:
    """Return the number of deliveries of a message with a delivery limit whose consumer rejects it each time."""
    channel = broker.connect().channel()
    channel.declare("limited", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 20})
    channel.publish("", "limited", b"poison", {"delivery_mode": 2})
    channel.sync()
    tries = 0
    while (message := channel.get("limited", no_ack=False)) is not None and tries < 100:
        tries += 1
        channel.reject(message.tag)
        channel.sync()
    return tries


@contextmanager
def looping(port: int) -> Iterator[None]:
    """A context with a client, in a process, that requeues its messages."""
    process = FORK.Process(target=_requeue, args=(port,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _requeue(port: int) -> None:
    channel = SocketPeer(f"127.0.0.1:{port}").connect().channel()
    channel.qos(1)
    channel.consume("loop")
    while True:
        channel.nack(channel.delivery().tag)


def ack_storm(lab: Lab) -> Outcome:
    count = lab.count(100_000, 1000)
    broker = lab.started()
    client = broker.connect()
    channel = client.channel()
    channel.declare("q")
    for _ in range(count):
        channel.publish("", "q", b"x")
    channel.sync()
    channel.consume("q")
    last = channel.deliveries(count)[-1]
    with neighbour(broker.port) as beside:
        cpu = cpu_s(broker.process.pid)
        began_s = time.monotonic()
        channel.ack(last.tag, multiple=True)
        channel.sync()
        took_ms, cpu_ms = (time.monotonic() - began_s) * 1000, (cpu_s(broker.process.pid) - cpu) * 1000
        time.sleep(0.3)
    other = client.channel()
    other.declare("r")
    for tag in (last.tag + 1, 1):
        channel.ack(tag)
        channel.expect_close(406)
        channel = client.channel()
        channel.fill("r", b"one")
        message = channel.get("r", no_ack=False)
        assert message is not None
        channel.ack(message.tag)  # the next ack of tag 1 is a double one
    other.sync()
    return Timed(
        True,
        f"one ack of {count:,} deliveries took {took_ms:.0f} ms, {cpu_ms:.0f} ms of processor; another client waited"
        f" {beside.at(1):.0f} ms at most; an unknown and a double tag: 406, that channel alone",
        beside.at(1) < 50,
    )


SCENARIOS = (
    Scenario(8, "memory alarm",
             "a flood without consumers: resident <= 1.15 times the limit, blocked <= 1 s; consumers keep >= 80 %",
             alarm),
    Scenario(10, "slow consumers",
             "10 at 1 KiB/s beside fast ones: these keep >= 90 %, memory grows < 50 MB", slow),
    Scenario(20, "unroutable flood", "return before ack, in order; memory flat, no line of log for each", unroutable,
             "50,000 messages"),
    Scenario(21, "requeue loop", "bounded processor for each, other queues keep >= 80 %; delivery limit 20", poison,
             "100,000 of 1,000,000 requeues"),
    Scenario(22, "ack storm", "multiple over 100,000: slices < 50 ms; unknown and double tag: 406", ack_storm),
)  # fmt: skip
