"""Connections and objects that come and go, deliveries over many consumers, and crowds of idle objects.

All frames are prepared, and replies are counted by their bytes. Each of several concurrent clients is a process.
"""

import multiprocessing
import selectors
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection as Pipe

from .client import (
    BODY,
    HEADER,
    METHOD,
    PATIENCE_S,
    Connection,
    LoadFailed,
    closed,
    exactly,
    frame,
    longstr,
    method,
    shortstr,
    table,
)
from .process import Broker, cpu_s, raise_open_files, rss_bytes

CLIENTS = 16  # clients that connect concurrently
PIPELINED = 100  # requests in flight
BODY_BYTES = 100
CONSUMING_CONNECTIONS, CHANNELS = 20, 100
QUEUES = 50_000
IDLE_CONNECTIONS = 10_000
WAVE = 100  # idle connections that are opened together
SPARE_FILES = 1000
SETTLE_S = 1.0
PING_S = 0.005  # the time between two requests of the client whose waits are measured
QUEUE, EXCHANGE = "bench.churn", "bench.churn.exchange"
FORK = multiprocessing.get_context("fork")

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = ("authentication_failure_close", "basic.nack", "connection.blocked", "publisher_confirms")
CLIENT_PROPERTIES = (
    table([("product", "bench"), ("version", "1"), ("platform", "Python")])[4:]
    + shortstr("capabilities") + b"F" + table([(name, True) for name in CAPABILITIES])
)  # fmt: skip
CREDENTIALS = shortstr("PLAIN") + longstr(b"\0guest\0guest") + shortstr("en_US")
START_OK = method(10, 11, longstr(CLIENT_PROPERTIES) + CREDENTIALS, 0)
OPEN = method(10, 40, shortstr("/") + shortstr("") + b"\0", 0)
CHANNEL_OPEN = method(20, 10, shortstr(""))
CHANNEL_CLOSE = method(20, 40, struct.pack(">H", 200) + shortstr("") + bytes(4))
CONNECTION_CLOSE = method(10, 50, struct.pack(">H", 200) + shortstr("") + bytes(4), 0)
BASIC_GET = method(60, 70, b"\0\0" + shortstr(QUEUE) + b"\1")


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure. `lower_is_better` is for times and memory."""

    what: str
    value: float
    unit: str
    lower_is_better: bool = False


def publish(key: str) -> bytes:
    """Return the frames of a transient message to the default exchange, on channel 1."""
    return (
        method(60, 40, b"\0\0" + shortstr("") + shortstr(key) + b"\0")
        + frame(HEADER, 1, struct.pack(">HHQH", 60, 0, BODY_BYTES, 0))
        + frame(BODY, 1, bytes(BODY_BYTES))
    )


def some(sock: socket.socket) -> bytes:
    """Receive at least one byte. Raises LoadFailed."""
    try:
        data = sock.recv(1 << 16)
    except BlockingIOError:
        data = b""
    if not data:
        raise LoadFailed("the broker closed the connection or sent no reply")
    return data


def reply(sock: socket.socket, wanted: tuple[int, int]) -> bytes:
    """Receive one frame, which must be this method, and return its arguments. Raises LoadFailed."""
    head = exactly(sock, 7)
    payload = exactly(sock, int.from_bytes(head[3:7], "big") + 1)
    ids = struct.unpack_from(">HH", payload)
    if head[0] != METHOD or ids != wanted:
        raise closed(*ids, payload[4:-1])
    return payload[4:-1]


# Connections that log in, open a channel, publish and leave


def connect(port: int) -> socket.socket:
    """Open a socket and send the protocol header."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    interval = struct.pack("ll", int(PATIENCE_S), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
    sock.sendall(PROTOCOL_HEADER)
    return sock


def tune_ok(offer: bytes, heartbeat_s: int | None = None) -> bytes:
    """Return the frames of tune-ok, which accepts an offer of connection.tune, and of connection.open."""
    channel_max, frame_max, heartbeat = struct.unpack(">HIH", offer)
    accepted = struct.pack(">HIH", channel_max, frame_max, heartbeat if heartbeat_s is None else heartbeat_s)
    return method(10, 31, accepted, 0) + OPEN


def visit(port: int, message: bytes) -> None:
    """Connect, log in, open a channel, publish a message, close all. Raises LoadFailed, OSError."""
    with closing(connect(port)) as sock:
        reply(sock, (10, 10))
        sock.sendall(START_OK)
        sock.sendall(tune_ok(reply(sock, (10, 30))))
        reply(sock, (10, 41))
        sock.sendall(CHANNEL_OPEN)
        reply(sock, (20, 11))
        sock.sendall(message + CHANNEL_CLOSE)
        reply(sock, (20, 41))
        sock.sendall(CONNECTION_CLOSE)
        reply(sock, (10, 51))


def visit_until(port: int, end_s: float, pipe: Pipe) -> None:
    """Visit until a time of the monotonic clock, at least once. Sends the number of visits, or the text of an error."""
    message, count = publish(QUEUE), 0
    try:
        while not count or time.monotonic() < end_s:
            visit(port, message)
            count += 1
        pipe.send(count)
    except (LoadFailed, OSError) as error:
        pipe.send(f"{type(error).__name__}: {error}")


def connections(broker: Broker, seconds: float) -> Iterator[Figure]:
    """Measure connections a second, from one client and from several at once."""
    with closing(Connection(broker.port)) as control:
        control.declare_queue(QUEUE)
        yield from visits(broker, seconds)
        control.delete_queue(QUEUE)


def visits(broker: Broker, seconds: float) -> Iterator[Figure]:
    """Measure the visits of one client, and of several at once."""
    for clients in (1, CLIENTS):
        pipes = []
        cpu_before_s = _cpu_s(broker)
        began_s = time.monotonic()
        for _ in range(clients):
            mine, its = FORK.Pipe(duplex=False)
            FORK.Process(target=visit_until, args=(broker.port, began_s + seconds, its), daemon=True).start()
            its.close()
            pipes.append(mine)
        counts = [received_count(pipe) for pipe in pipes]
        took_s = time.monotonic() - began_s
        count, cpu_took_s = sum(counts), _cpu_s(broker) - cpu_before_s
        name = "connections, one client" if clients == 1 else f"connections, {clients} clients"
        yield Figure(name, count / took_s, "/s")
        if broker.pid is not None:
            yield Figure(f"{name}: processor time each", cpu_took_s / count * 1e6, "us", True)


def received_count(pipe: Pipe) -> int:
    """Receive the count of a client. Raises LoadFailed with its error."""
    with closing(pipe):
        count = pipe.recv()
    if not isinstance(count, int):
        raise LoadFailed(count)
    return count


def _cpu_s(broker: Broker) -> float:
    return cpu_s(broker.pid) if broker.pid is not None else 0.0


# Declarations and deletions


@dataclass(frozen=True, slots=True)
class Change:
    """A request that is made with many names, and its reply, all of which have the same length."""

    name: str
    request: Callable[[int], bytes]
    reply: tuple[int, int]
    reply_bytes: int


def object_name(number: int) -> str:
    return f"bench.churn.{number:07}"


def queue_declare(number: int) -> bytes:
    return method(50, 10, b"\0\0" + shortstr(object_name(number)) + b"\2" + longstr(b""))


def queue_delete(number: int) -> bytes:
    return method(50, 40, b"\0\0" + shortstr(object_name(number)) + b"\0")


def exchange_declare(number: int) -> bytes:
    return method(40, 10, b"\0\0" + shortstr(object_name(number)) + shortstr("direct") + b"\2" + longstr(b""))


def exchange_delete(number: int) -> bytes:
    return method(40, 20, b"\0\0" + shortstr(object_name(number)) + b"\0")


def queue_bind(number: int) -> bytes:
    ends = shortstr(QUEUE) + shortstr(EXCHANGE) + shortstr(object_name(number))
    return method(50, 20, b"\0\0" + ends + b"\0" + longstr(b""))


def queue_unbind(number: int) -> bytes:
    ends = shortstr(QUEUE) + shortstr(EXCHANGE) + shortstr(object_name(number))
    return method(50, 50, b"\0\0" + ends + longstr(b""))


METHOD_BYTES = 12  # the length of a method without arguments: frame header, ids, frame end
QUEUE_DECLARE = Change("durable queue declares", queue_declare, (50, 11), METHOD_BYTES + 1 + len(object_name(0)) + 8)
QUEUE_DELETE = Change("durable queue deletes", queue_delete, (50, 41), METHOD_BYTES + 4)
CHANGES = (
    (QUEUE_DECLARE, QUEUE_DELETE),
    (
        Change("durable exchange declares", exchange_declare, (40, 11), METHOD_BYTES),
        Change("durable exchange deletes", exchange_delete, (40, 21), METHOD_BYTES),
    ),
    (
        Change("durable binds", queue_bind, (50, 21), METHOD_BYTES),
        Change("durable unbinds", queue_unbind, (50, 51), METHOD_BYTES),
    ),
)


def declares(broker: Broker, seconds: float) -> Iterator[Figure]:
    """Measure changes of the topology a second on one connection: each after the reply of the last, and pipelined."""
    control = Connection(broker.port)
    with closing(control.socket) as sock:
        control.declare_queue(QUEUE, durable=True)
        control.declare_exchange(EXCHANGE, "direct", True)
        for make, undo in CHANGES:
            for in_flight, way in ((1, "one by one"), (PIPELINED, f"{PIPELINED} in flight")):
                began_s = time.monotonic()
                made = change(sock, make, 0, 10**7, in_flight, began_s + seconds)
                yield Figure(f"{make.name}, {way}", made / (time.monotonic() - began_s), "/s")
                began_s = time.monotonic()
                undone = change(sock, undo, 0, made, in_flight, began_s + seconds)
                yield Figure(f"{undo.name}, {way}", undone / (time.monotonic() - began_s), "/s")
                change(sock, undo, undone, made, PIPELINED)
        control.delete_exchange(EXCHANGE)
        control.delete_queue(QUEUE)


def change(
    sock: socket.socket, change: Change, first: int, end: int, in_flight: int, end_s: float = float("inf")
) -> int:
    """Make a change with the numbers from `first` to `end`, until a time of the monotonic clock. Returns their number.

    Half of the requests in flight are sent together, and at least once. Raises LoadFailed.
    """
    piece = max(in_flight // 2, 1)
    sent = received = first
    data = b""

    def goes_on() -> bool:
        return sent < end and (sent == first or time.monotonic() < end_s)

    while received < sent or goes_on():
        while sent - received <= in_flight - piece and goes_on():
            count = min(piece, end - sent)
            sock.sendall(b"".join(map(change.request, range(sent, sent + count))))
            sent += count
        if received < sent:
            data += some(sock)
            whole = len(data) // change.reply_bytes * change.reply_bytes
            for at in range(0, whole, change.reply_bytes):
                ids = struct.unpack_from(">HH", data, at + 7)
                if ids != change.reply:
                    raise closed(*ids, data[at + 11 :])
            received += whole // change.reply_bytes
            data = data[whole:]
    return received - first


# Deliveries over many consumers


def delivery_bytes(tag: str, key: str) -> int:
    """Return the length of the frames of one delivery of `publish`."""
    deliver = method(60, 60, shortstr(tag) + bytes(9) + shortstr("") + shortstr(key))
    return len(deliver) + 8 + 14 + 8 + BODY_BYTES


def publish_to(port: int, keys: Sequence[str]) -> None:
    """Publish to these keys in turn until the process is ended."""
    publisher = Connection(port)
    data = b"".join(map(publish, keys))
    while True:
        publisher.socket.sendall(data)


def spread(broker: Broker, seconds: float) -> Iterator[Figure]:
    """Measure deliveries a second to many consumers, each with a queue of its own, and all with one queue."""
    count = CONSUMING_CONNECTIONS * CHANNELS
    # The rounds have different names, because the broker may still publish messages of the first round.
    for first, queues in ((0, count), (count, 1)):
        with ExitStack() as stack:
            control = Connection(broker.port)
            stack.callback(control.socket.close)
            for number in range(first, first + queues):
                control.declare_queue(object_name(number))
            consumers = [Connection(broker.port) for _ in range(CONSUMING_CONNECTIONS)]
            for number, consumer in enumerate(consumers):
                stack.callback(consumer.socket.close)
                for channel in range(1, CHANNELS + 1):
                    if channel > 1:
                        consumer.call(method(20, 10, shortstr(""), channel), (20, 11))
                    key = object_name(first + (number * CHANNELS + channel - 1) % queues)
                    consume = b"\0\0" + shortstr(key) + shortstr(f"c{channel:03}") + b"\2" + longstr(b"")
                    consumer.call(method(60, 20, consume, channel), (60, 21))
            keys = [object_name(first + number % queues) for number in range(count)]
            publisher = FORK.Process(target=publish_to, args=(broker.port, keys), daemon=True)
            publisher.start()
            stack.callback(publisher.join)
            stack.callback(publisher.kill)
            size = delivery_bytes("c000", keys[0])
            rate = received_per_s([consumer.socket for consumer in consumers], size, seconds)
            yield Figure(f"deliveries, {count:,} consumers, {queues:,} queue{'s' * (queues > 1)}", rate, "/s")
        with closing(Connection(broker.port).socket) as sock:
            change(sock, QUEUE_DELETE, first, first + queues, PIPELINED)


def received_per_s(sockets: Sequence[socket.socket], size: int, seconds: float) -> float:
    """Count deliveries of one length by their bytes, after a warm-up of a third of the time, until there are any.

    Raises LoadFailed.
    """
    selector, buffer = selectors.DefaultSelector(), bytearray(1 << 18)
    for sock in sockets:
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, sock)
    unchecked = set(sockets)
    warm_s = time.monotonic() + seconds / 3
    end_s, began_s, count = warm_s + seconds, warm_s, 0
    while (now_s := time.monotonic()) < end_s or not count:
        if now_s > end_s + PATIENCE_S:
            raise LoadFailed("the broker delivered nothing")
        if now_s < warm_s:
            count, began_s = 0, now_s
        for key, _ in selector.select(0.1):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            received = sock.recv_into(buffer)
            if not received:
                raise LoadFailed("the broker closed the connection of a consumer")
            if sock in unchecked and received > size:
                unchecked.remove(sock)
                if buffer[:1] != bytes((METHOD,)) or buffer[size - 1] != 0xCE or buffer[size : size + 1] != buffer[:1]:
                    raise LoadFailed(f"a delivery does not have {size} bytes")
            count += received
    selector.close()
    return count / size / (time.monotonic() - began_s)


# Crowds


@contextmanager
def impatient_client(broker: Broker) -> Iterator[list[float]]:
    """Another client, which polls an empty queue during the context; the list gets its longest wait in seconds."""
    with closing(Connection(broker.port)) as control:
        control.declare_queue(QUEUE)
        mine, its = FORK.Pipe()
        process = FORK.Process(target=ask, args=(broker.port, its), daemon=True)
        process.start()
        its.close()
        mine.recv()
        waits: list[float] = []
        try:
            yield waits
        finally:
            mine.send(None)
            waits.append(mine.recv() if mine.poll(PATIENCE_S) else PATIENCE_S)
            process.kill()
            process.join()
            control.delete_queue(QUEUE)


def ask(port: int, pipe: Pipe) -> None:
    """Ask for a message until the other end writes; send the longest wait."""
    client, longest_s = Connection(port), 0.0
    pipe.send(None)
    while not pipe.poll():
        began_s = time.monotonic()
        client.call(BASIC_GET, (60, 72))
        longest_s = max(longest_s, time.monotonic() - began_s)
        time.sleep(PING_S)
    pipe.send(longest_s)


def measured(broker: Broker, what: str, work: Callable[[], object]) -> Iterator[Figure]:
    """Measure the duration of some work, and the longest wait of another client meanwhile."""
    with impatient_client(broker) as waits:
        began_s = time.monotonic()
        work()
        took_s = time.monotonic() - began_s
    yield Figure(what, took_s, "s", True)
    yield Figure(f"{what}: longest wait", waits[0] * 1000, "ms", True)


def memory_each(broker: Broker, before: int, count: int, what: str) -> Iterator[Figure]:
    """Measure the growth of resident memory for each object; nothing of a broker without pid."""
    if broker.pid is not None:
        time.sleep(SETTLE_S)
        yield Figure(f"memory of {what}", (rss_bytes(broker.pid) - before) / count / 1024, "KiB", True)


def queues(broker: Broker, count: int = QUEUES) -> Iterator[Figure]:
    """Measure very many durable queues: time to declare and delete, memory, the longest wait of another client."""
    with closing(Connection(broker.port).socket) as sock:
        before = rss_bytes(broker.pid) if broker.pid is not None else 0
        yield from measured(
            broker, f"declare {count:,} queues", partial(change, sock, QUEUE_DECLARE, 0, count, PIPELINED)
        )
        yield from memory_each(broker, before, count, "a durable queue")
        yield from measured(
            broker, f"delete {count:,} queues", partial(change, sock, QUEUE_DELETE, 0, count, PIPELINED)
        )


def idle_connections(broker: Broker, count: int = IDLE_CONNECTIONS) -> Iterator[Figure]:
    """Measure very many idle connections with one channel: time to open and to close, memory, the longest wait."""
    raise_open_files(count + SPARE_FILES)
    opened: list[socket.socket] = []

    def open_all() -> None:
        while len(opened) < count:
            opened.extend(open_wave(broker.port, min(WAVE, count - len(opened))))

    def close_all() -> None:
        for sock in opened:
            sock.sendall(CONNECTION_CLOSE)
        for sock in opened:
            reply(sock, (10, 51))
            sock.close()

    try:
        opened += open_wave(broker.port, WAVE)
        before = rss_bytes(broker.pid) if broker.pid is not None else 0
        yield from measured(broker, f"open {count:,} connections", open_all)
        yield from memory_each(broker, before, count - WAVE, "an idle connection")
        yield from measured(broker, f"close {count:,} connections", close_all)
    finally:
        for sock in opened:
            sock.close()


def open_wave(port: int, count: int, heartbeat_s: int = 0) -> list[socket.socket]:
    """Open connections with one channel, one step of all of them after the other."""
    sockets = [connect(port) for _ in range(count)]
    for sock in sockets:
        reply(sock, (10, 10))
        sock.sendall(START_OK)
    for sock in sockets:
        sock.sendall(tune_ok(reply(sock, (10, 30)), heartbeat_s))
    for sock in sockets:
        reply(sock, (10, 41))
        sock.sendall(CHANNEL_OPEN)
    for sock in sockets:
        reply(sock, (20, 11))
    return sockets


# All of it

REPEATED: dict[str, Callable[[Broker, float], Iterator[Figure]]] = {
    "connections": connections,
    "declares": declares,
    "spread": spread,
}
ONCE: dict[str, Callable[[Broker], Iterator[Figure]]] = {"queues": queues, "idle": idle_connections}
PARTS = (*REPEATED, *ONCE)


def compare(
    brokers: Sequence[Broker], parts: Sequence[str], rounds: int, seconds: float
) -> Iterator[tuple[str, list[Figure | None]]]:
    """Measure the parts on each broker in turn, crowds once; yield the name and the medians of each figure."""
    for part in parts:
        runs: list[dict[str, list[Figure]]] = [{} for _ in brokers]
        for _ in range(rounds if part in REPEATED else 1):
            for broker, figures in zip(brokers, runs, strict=True):
                with closing(Connection(broker.port)) as control:
                    control.delete_queue(QUEUE)  # of a run that was interrupted
                check = REPEATED[part](broker, seconds) if part in REPEATED else ONCE[part](broker)
                for figure in check:
                    figures.setdefault(figure.what, []).append(figure)
        for what in dict.fromkeys(what for figures in runs for what in figures):
            yield what, [median(figures[what]) if what in figures else None for figures in runs]


def median(figures: Sequence[Figure]) -> Figure:
    first = figures[0]
    value = statistics.median(figure.value for figure in figures)
    return Figure(first.what, value, first.unit, first.lower_is_better)
