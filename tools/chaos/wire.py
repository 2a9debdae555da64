"""Invalid bytes: frames, tables, and contents that end early."""

import struct
from collections.abc import Iterator
from contextlib import suppress

from pamqp.commands import Basic

from tests.faults.fuzz.test_sessions import session
from tests.support import codec
from tests.support.amqp_client import FRAME_MAX, Client, Silence
from tests.support.broker_process import BrokerProcess
from tests.support.peer import SocketPipe
from tests.support.polling import until
from tools.bench.process import cpu_s, rss_bytes
from tools.failover.outcome import Outcome, suite

from .probes import neighbour
from .scenario import Lab, Scenario, Timed, both

MIB = 1 << 20
HUGE_BYTES = 0xFFFFFFFF
MESSAGE_MAX_BYTES = 16 * MIB
HANG_MS = 100


def huge(lab: Lab) -> Outcome:
    broker = lab.started()
    control = broker.connect().channel()
    control.declare("q")
    before, texts = rss_bytes(broker.process.pid), []
    for name, size in (("size 0xFFFFFFFF", HUGE_BYTES), ("frame_max + 1", FRAME_MAX + 1)):
        client = broker.connect()
        client.raw(struct.pack(">BHI", 1, 0, size))
        client.expect_close(501)
        texts.append(f"{name}: 501")
    client = broker.connect()
    channel = client.channel()
    channel.send(Basic.Publish, routing_key="q")
    client.raw(codec.header_frame(channel.number, 1 << 63, None))
    client.expect_close(501)
    client = broker.connect()
    channel = client.channel()
    channel.publish("", "q", bytes(MESSAGE_MAX_BYTES + 1))
    channel.expect_close(406)
    texts.append("body of 2^63: 501 at its header; body of 16 MiB + 1: 406, its frames were dropped")
    client = broker.connect()
    channel = client.channel()
    channel.send(Basic.Publish, routing_key="q")
    client.raw(codec.header_frame(channel.number, 1, None))
    with neighbour(broker.port) as beside:
        with suppress(OSError):
            client.raw(codec.frame(3, channel.number, b"") * lab.count(200_000))
        control.sync()
    grown = rss_bytes(broker.process.pid) - before
    texts.append(f"{lab.count(200_000):,} empty body frames: another client waited {beside.at(1):.0f} ms at most")
    text = f"{'; '.join(texts)}; memory grew {grown / MIB:.1f} MiB"
    return Timed(grown < 4 * MIB, text, beside.at(1) < HANG_MS)


def _close_code(client: Client, channel: int) -> int:
    """The code of the close of the channel or of the connection."""

    def close() -> object:
        with suppress(Silence):
            client.pump(20)
        return next(iter(client.inbox(channel)), None) or next(iter(client.inbox(0)), None)

    return int(getattr(until(close, "a close"), "reply_code", 0))


def mutated(data: list[bytes], lab: Lab) -> list[bytes]:
    """A recorded session with some frames lost, doubled, moved, changed or cut short."""
    dice, frames = lab.dice, [frame for frame in data if frame]
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(frames))
        match dice.randrange(5):
            case 0:
                del frames[at]
            case 1:
                frames.insert(at, frames[at])
            case 2:
                frames.insert(dice.randrange(len(frames)), frames.pop(at))
            case 3:
                changed = bytearray(frames[at])
                changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
                frames[at] = bytes(changed)
            case 4:
                frames[at] = frames[at][: dice.randrange(1, len(frames[at]) + 1)]
    return frames


def fuzzed(lab: Lab) -> Outcome:
    cases = lab.count(1000)
    broker = lab.started()
    for _ in range(cases // 4):  # sessions after which one-time allocations are done
        _send(broker, lab)
    before = rss_bytes(broker.process.pid)
    with neighbour(broker.port) as beside:
        for _ in range(cases):
            _send(broker, lab)
    grown = rss_bytes(broker.process.pid) - before
    bugs = [line for line in broker.log_lines() if line["level"] in ("error", "critical") and "Traceback" in str(line)]
    assert broker.process.poll() is None and not bugs, str(bugs[:1])
    by_process = Outcome(
        grown < 4 * MIB and beside.at(1) < HANG_MS,
        f"{cases:,} damaged sessions over sockets: 0 unhandled exceptions, another client waited {beside.at(1):.0f} ms"
        f" at most, memory grew {grown / MIB:.1f} MiB",
    )
    return both(by_process, suite("tests/faults/fuzz", WARREN_FUZZ_EXAMPLES=str(lab.count(100))))


def _send(broker: BrokerProcess, lab: Lab) -> None:
    pipe = SocketPipe(*broker.address)
    pipe.send(b"".join(mutated(session(False), lab)))
    with suppress(Silence):
        pipe.receive(5)
    pipe.close()


def tables(lab: Lab) -> Outcome:
    """Tables that are deep, wide, or whose lengths are wrong, as arguments of queue.declare and as headers."""
    broker = lab.started()
    texts = []
    for name, table in _tables():
        client = broker.connect()
        channel = client.channel()
        declare = struct.pack(">HHH", 50, 10, 0) + b"\1q\0" + table
        began_s = cpu_s(broker.process.pid)
        client.raw(codec.frame(1, channel.number, declare))
        code = _close_code(client, channel.number)
        took_ms = (cpu_s(broker.process.pid) - began_s) * 1000
        assert code in (501, 502), f"{name}: {code}"
        texts.append((name, code, took_ms))
        client.vanish()
    slowest = max(took_ms for _, _, took_ms in texts)
    figures = ", ".join(f"{name}: {code}" for name, code, _ in texts)
    return Timed(True, f"{figures}; {slowest:.1f} ms of processor at most", slowest < 5)


def _tables() -> Iterator[tuple[str, bytes]]:
    nested = b""
    for _ in range(500):
        nested = b"\1aF" + struct.pack(">I", len(nested)) + nested
    wide = b"".join(b"\5%05dt\1" % number for number in range(14_000))
    long_ = b"\1aS" + struct.pack(">I", 255)
    for name, entries in (("500 deep", nested), ("14,000 entries", wide), ("a string longer than the table", long_)):
        yield name, struct.pack(">I", len(entries)) + entries


def cut(lab: Lab) -> Outcome:
    """End the connection after each byte of a publish."""
    broker = lab.started()
    control = broker.connect().channel()
    control.declare("q")
    whole = (
        codec.method_frame(1, Basic.Publish, {"routing_key": "q"})
        + codec.header_frame(1, 20, {"delivery_mode": 2, "message_id": "one"})
        + codec.body_frames(1, b"x" * 20, 131072)
    )
    for size in range(len(whole)):
        client = broker.connect()
        client.channel()
        client.raw(whole[:size])
        client.vanish()
    client = broker.connect()
    client.channel()
    client.raw(whole)
    until(lambda: control.count("q"), "the complete message")
    count = control.count("q")
    return Outcome(
        count == 1, f"cut after each of {len(whole)} bytes: {count - 1} partial messages, and the complete one"
    )


SCENARIOS = (
    Scenario(15, "huge and empty frames", "501 before they are buffered; empty frames delay nobody", huge),
    Scenario(16, "damaged sessions", "0 unhandled exceptions, no hang > 100 ms, memory flat", fuzzed,
             "1,000 sessions of 10,000, 100 examples a test"),
    Scenario(18, "deep and wide tables", "closed with 501 or 502 in < 5 ms", tables),
    Scenario(23, "connection cut within a publish", "at each byte: no partial message", cut),
)  # fmt: skip
