"""Connections: too many, slow, idle and short ones, their channels and their logins."""

import os
import selectors
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import trustme
from pamqp.commands import Channel as ChannelMethods

from tests.faults.crash.test_login_flood import gets_in, send_login
from tests.support.amqp_client import Closed
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until
from tools.bench.churn import PROTOCOL_HEADER, START_OK, open_wave, publish, visit
from tools.bench.process import cpu_s, raise_open_files, rss_bytes
from tools.failover.outcome import Outcome

from .probes import FORK, calm, neighbour
from .scenario import Lab, Scenario, Timed

KIB = 1024
CHURN_PER_S = 500
CHURN_CLIENTS = 4
WAVE = 100
HANDSHAKE_S, TLS_HANDSHAKE_S, HTTP_REQUEST_S = 10.0, 5.0, 5.0
CLIENT_HELLO = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500)  # the beginning
WRONG_AT_ONCE, WRONG_EACH_S = 10, 0.1  # wrong passwords of one name: each further one delays the next check
EARLY_S = 0.2  # the tolerance of the measurement's beginning
LATE_S = 2.0  # the tolerance of a time-out on a busy machine


def limited(lab: Lab, descriptors: int) -> BrokerProcess:
    """Return a broker that may open that many files."""
    python = lab.folder / f"python{descriptors}"
    python.write_text(f'#!/bin/sh\nulimit -n {descriptors}\nexec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return lab.started(python=str(python))


def exhausted(lab: Lab) -> Outcome:
    broker = limited(lab, 256)
    pid = broker.process.pid
    with ExitStack() as stack, neighbour(broker.port) as beside:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(broker.address))
        began_s, cpu = time.monotonic(), cpu_s(pid)
        time.sleep(2)
        busy = (cpu_s(pid) - cpu) / (time.monotonic() - began_s)
        status = broker.http().get("/overview").status
        broker.connect().channel().declare("newcomer", durable=True)
    broker.connect().channel().declare("after", durable=True)
    assert not broker.events("storage_failed"), broker.tail()
    return Timed(
        status == 200,
        f"256 descriptors, 1,000 connections: {busy:.0%} of a processor beside those of"
        f" another client ({beside}), HTTP answered {status}, a newcomer and its durable queue got in",
        busy < 0.2,
    )


def http_at_limit(lab: Lab) -> Outcome:
    broker, held = limited(lab, 1024), 0
    with suppress(Closed, OSError, AssertionError):
        for _ in range(1000):
            broker.connect()
            held += 1
    statuses = [broker.http().get(path).status for path in ("/overview", "/health/checks/alarms")]
    ctl = broker.warrenctl("list_connections", "name").returncode
    return Outcome(
        statuses == [200, 200] and not ctl and held > 700,
        f"1,024 descriptors, {held} AMQP connections logged in: overview and health check answered {statuses},"
        f" warrenctl ended with {ctl}",
    )


def idle(lab: Lab) -> Outcome:
    count, heartbeat_s = lab.count(2000, WAVE), 20
    raise_open_files(count + 1000)
    broker = lab.started()
    pid = broker.process.pid
    alone = calm(broker.port, 3.0)
    opened = open_wave(broker.port, WAVE, heartbeat_s)
    before = rss_bytes(pid)
    while len(opened) < count + WAVE:
        opened += open_wave(broker.port, WAVE, heartbeat_s)
    time.sleep(1)
    each = (rss_bytes(pid) - before) / count
    cpu = cpu_s(pid)
    time.sleep(heartbeat_s / 2)
    busy = (cpu_s(pid) - cpu) / (heartbeat_s / 2)
    beside = calm(broker.port, 3.0)
    for sock in opened:
        sock.close()
    rise = beside.at(0.99) / alone.at(0.99) - 1
    return Timed(
        each <= 50 * KIB,
        f"{count:,} connections with a channel: {each / KIB:.1f} KiB each, {busy:.1%} of a processor for heartbeats of"
        f" {heartbeat_s} s; p99 of a busy client {alone.at(0.99):.1f} ms without them, {beside.at(0.99):.1f} ms with"
        " (bound: a fifth, or 1 ms)",
        busy < 0.05 and (rise < 0.2 or beside.at(0.99) - alone.at(0.99) < 1),
    )


def churn(lab: Lab) -> Outcome:
    seconds = 20 * lab.scale
    broker = lab.started()
    pid = broker.process.pid
    _churned(broker, seconds / 2)  # connections after which one-time allocations are done
    before, files = rss_bytes(pid), _files(pid)
    with neighbour(broker.port) as beside:
        times_ms = _churned(broker, seconds)
    until(lambda: _files(pid) <= files, lambda: f"{_files(pid)} descriptors in place of {files}", 10.0)
    drift = (rss_bytes(pid) - before) / before
    p99 = times_ms[int(len(times_ms) * 0.99)]
    return Timed(
        drift < 0.02,
        f"{len(times_ms) / seconds:,.0f} connections a second (wanted: {CHURN_PER_S}) for {seconds:.0f} s: p99 of open,"
        f" publish and close {p99:.0f} ms, another client waited {beside.at(1):.0f} ms at most; descriptors as before,"
        f" memory {drift:+.1%}",
        p99 < 100 and beside.at(1) < 50,
    )


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _churned(broker: BrokerProcess, seconds: float) -> list[float]:
    """Open and close connections by several processes at a rate. Returns the sorted times in ms."""
    pipes = []
    for _ in range(CHURN_CLIENTS):
        mine, its = FORK.Pipe(duplex=False)
        FORK.Process(target=_visit, args=(broker.port, seconds, its), daemon=True).start()
        its.close()
        pipes.append(mine)
    return sorted(time_ms for pipe in pipes for time_ms in pipe.recv())


def _visit(port: int, seconds: float, pipe: Pipe) -> None:
    message, times_ms, due_s = publish("nowhere"), [], time.monotonic()
    end_s = due_s + seconds
    while due_s < end_s and time.monotonic() < end_s + seconds:
        time.sleep(max(due_s - time.monotonic(), 0))
        began_s = time.monotonic()
        visit(port, message)
        times_ms.append((time.monotonic() - began_s) * 1000)
        due_s += CHURN_CLIENTS / CHURN_PER_S
    pipe.send(times_ms)


def channels(lab: Lab) -> Outcome:
    connections = lab.count(10)
    broker = lab.started()
    clients = [broker.connect() for _ in range(connections)]
    before = rss_bytes(broker.process.pid)
    for client in clients:
        for first in range(1, 2048, 256):
            opened = [client.unopened(number) for number in range(first, min(first + 256, 2048))]
            for channel in opened:
                channel.send(ChannelMethods.Open)
            for channel in opened:
                assert isinstance(channel.next(), ChannelMethods.OpenOk)
    each = (rss_bytes(broker.process.pid) - before) / connections / 2047
    over = clients[0].unopened(2048)
    over.send(ChannelMethods.Open)
    reply = clients[0].next()
    broker.connect().channel().declare("still.served")
    return Outcome(
        each <= 2 * KIB and reply.reply_code in (504, 530),
        f"2,047 channels on each of {connections} connections: {each / KIB:.2f} KiB each; number 2,048 closes its"
        f" connection with {reply.reply_code}, others are served",
    )


# Slow clients


def slowloris(lab: Lab) -> Outcome:
    count = lab.count(300, 3)
    raise_open_files(count + 1000)
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    paths = {
        "cacertfile": lab.folder / "ca.pem",
        "certfile": lab.folder / "cert.pem",
        "keyfile": lab.folder / "key.pem",
    }
    authority.cert_pem.write_to_path(str(paths["cacertfile"]))
    issued.cert_chain_pems[0].write_to_path(str(paths["certfile"]))
    issued.private_key_pem.write_to_path(str(paths["keyfile"]))
    options = tuple(f"ssl_options.{name} = {path}" for name, path in paths.items())
    broker = lab.started(settings=("listeners.ssl.1 = 127.0.0.1:0", *options))
    secure = next(int(line["address"].rpartition(":")[2]) for line in broker.events("listener_started") if line["tls"])
    http = int(broker.addresses["http"][0].rpartition(":")[2])
    ports = {"AMQP": (broker.port, PROTOCOL_HEADER + START_OK, HANDSHAKE_S),
             "TLS": (secure, CLIENT_HELLO, TLS_HANDSHAKE_S),
             "HTTP": (http, b"GET /api/overview HTTP/1.1\r\nX: ", HTTP_REQUEST_S)}  # fmt: skip
    closed: dict[str, list[float]] = {name: [] for name in ports}
    ended = threading.Event()
    thread = threading.Thread(target=_drip, args=(ports, count // 3, closed, ended), daemon=True)
    thread.start()
    connects_ms = []
    while thread.is_alive() and not ended.is_set():
        began_s = time.monotonic()
        with closing(open_wave(broker.port, 1)[0]):
            connects_ms.append((time.monotonic() - began_s) * 1000)
        time.sleep(0.05)
    thread.join()
    p99 = sorted(connects_ms)[int(len(connects_ms) * 0.99)]
    texts = [f"{name} {min(times, default=0):.1f} to {max(times, default=0):.1f} s ({len(times)} of {count // 3})"
             for name, times in closed.items()]  # fmt: skip
    limits = [(closed[name], limit_s) for name, (_, _, limit_s) in ports.items()]
    return Timed(
        all(len(times) == count // 3 and min(times) >= limit_s - EARLY_S for times, limit_s in limits),
        f"{count} connections that send a byte a second, closed after {', '.join(texts)}; {len(connects_ms)}"
        f" other logins, p99 {p99:.0f} ms",
        p99 < 200 and all(max(times, default=0) <= limit_s + LATE_S for times, limit_s in limits),
    )


def _drip(
    ports: dict[str, tuple[int, bytes, float]], each: int, closed: dict[str, list[float]], ended: threading.Event
) -> None:
    """Send a byte a second on each connection, and note when the broker closes it."""
    selector = selectors.DefaultSelector()
    for name, (port, start, _) in ports.items():
        for _ in range(each):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.send(start[:1])
            selector.register(sock, selectors.EVENT_READ, (name, time.monotonic(), start))
    began_s = next_s = time.monotonic()
    at = 1
    while selector.get_map() and time.monotonic() < began_s + 40:
        for key, _ in selector.select(0.1):
            name, since_s, _ = key.data
            with suppress(OSError):
                if key.fileobj.recv(4096):  # type: ignore[union-attr]
                    continue
            closed[name].append(time.monotonic() - since_s)
            selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
        if time.monotonic() >= next_s:
            next_s += 1
            for key in list(selector.get_map().values()):
                with suppress(OSError):
                    key.fileobj.send(key.data[2][at : at + 1] or b"x")  # type: ignore[union-attr]
            at += 1
    ended.set()


def login_flood(lab: Lab) -> Outcome:
    wrong_count, requests = lab.count(300), lab.count(2000)
    broker = lab.started()
    assert gets_in(send_login(broker, "127.0.0.1", "guest"))
    alone = calm(broker.port, 3.0)
    with neighbour(broker.port) as beside_logins:
        wrong = [send_login(broker, "127.0.0.2", f"wrong {number}") for number in range(wrong_count)]
        good = gets_in(send_login(broker, "127.0.0.1", "guest"))
        refused = len(broker.events("login_refused"))
        time.sleep(2)
        verified = [datetime.fromisoformat(line["time"]) for line in broker.events("login_refused")]
    for client in wrong:
        client.pipe.close()
    with neighbour(broker.port) as beside_http:
        answered = _parallel(lambda: _look(broker, requests // 4), 4)
    p99 = [one.at(0.99) for one in (alone, beside_logins, beside_http)]
    slowed = verified[WRONG_AT_ONCE - 1 :]
    each_s = (slowed[-1] - slowed[0]).total_seconds() / (len(slowed) - 1) if len(slowed) > 1 else 0.0
    return Timed(
        good and answered and each_s >= WRONG_EACH_S,
        f"{wrong_count} wrong logins at once: {len(verified)} were verified, after {WRONG_AT_ONCE} one in each"
        f" {each_s:.2f} s, and the right password gets in after {refused} of them; p99 of another"
        f" client {p99[0]:.1f} ms alone, {p99[1]:.1f} ms beside them, {p99[2]:.1f} ms beside {requests:,} HTTP requests"
        f" of four clients, {'all' if answered else 'NOT ALL'} answered with 200 (bound: twice, and at least 20 ms)",
        max(p99[1:]) < max(2 * p99[0], 20),
    )


def _look(broker: BrokerProcess, requests: int) -> None:
    """Request the overview at intervals."""
    os.nice(10)
    for _ in range(requests):
        assert broker.http().get("/overview").status == 200


def _parallel(work: Callable[[], object], count: int) -> bool:
    """Call a function in this number of processes; return whether none of them raised."""
    processes = [FORK.Process(target=work, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return not any(process.exitcode for process in processes)


SCENARIOS = (
    Scenario(9, "file descriptors used up",
             "256 descriptors, 1,000 connects: < 20 % of a processor, HTTP and existing clients served", exhausted),
    Scenario(11, "idle connections", "<= 50 KiB each; p99 of a busy client rises < 20 %; heartbeats < 5 % processor",
             idle, "2,000 of 10,000"),
    Scenario(12, "connection churn", "500/s: descriptors and memory drift < 2 %, p99 < 100 ms, turns < 50 ms", churn,
             "20 s of 10 min"),
    Scenario(13, "channels", "2,047 each: <= 2 KiB; number 2,048: 504 or 530", channels, "10 of 100 connections"),
    Scenario(17, "slow handshakes", "AMQP closed at 10 s, TLS at 5 s; other logins p99 < 200 ms", slowloris,
             "300 of 5,000"),
    Scenario(27, "floods of logins and HTTP", "10 wrong logins, then 10/s; p99 of AMQP < 2 times", login_flood),
    Scenario(37, "HTTP at the limit of descriptors", "HTTP, health checks and warrenctl are answered", http_at_limit),
)  # fmt: skip
