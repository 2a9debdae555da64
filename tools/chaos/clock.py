"""Time: missed heartbeats, a jumping wall clock, and a long mixed load."""

import threading
import time

from tests.support.amqp_client import Channel, Client, Silence
from tests.support.broker_process import BrokerProcess
from tests.support.codec import BEAT
from tests.support.peer import SocketPeer
from tests.support.polling import until
from tests.support.proxy import Proxy
from tools.failover.outcome import Outcome
from tools.soak.run import soak

from .clients import fill
from .scenario import Lab, Scenario, Timed

HEARTBEAT_S = 2
HOUR_S = 3600.0
TTL_MS, EXPIRES_MS = 3000, 4000
WITHIN_S = 15.0
POLLED_S = 0.2  # the tolerance of the measurement


def heartbeats(lab: Lab) -> Outcome:
    """A client behind a silent network, one that sends no heartbeats but publishes, and one that is blocked."""
    broker = lab.started()
    fill(broker, "q", [b"%d" % number for number in range(10)])
    proxy = Proxy(lab.loop(), broker.address)
    lab.stack.callback(proxy.close)
    lost = SocketPeer(proxy.address).connect(heartbeat=HEARTBEAT_S).channel()
    lost.consume("q")
    lost.deliveries(10)
    busy = broker.connect(heartbeat=HEARTBEAT_S)
    ended = threading.Event()
    sender = threading.Thread(target=_publish, args=(busy, ended), daemon=True)
    sender.start()
    observer = broker.connect().channel()
    last_s = time.monotonic()
    lost.client.raw(BEAT)
    proxy.silence()
    until(lambda: observer.count("q") == 10, lambda: f"{observer.count('q')} of 10 requeued", WITHIN_S)
    detected_s = time.monotonic() - last_s
    came = [observer.get("q") for _ in range(10)]
    ordered = [one.body for one in came if one] == [b"%d" % number for number in range(10)]
    flagged = all(one and one.redelivered for one in came)
    alive = not busy.ended
    ended.set()
    sender.join()
    blocked_alive = _while_blocked(broker)
    early = detected_s < 2 * HEARTBEAT_S - POLLED_S
    return Timed(
        not early and ordered and flagged and alive and blocked_alive,
        f"interval {HEARTBEAT_S} s: silence is detected after {detected_s:.1f} s, its 10 deliveries are requeued"
        f" {'in order' if ordered else 'OUT OF ORDER'}, {'all' if flagged else 'NOT ALL'} redelivered; a client that"
        f" only publishes is {'kept' if alive else 'NOT KEPT'}, a blocked one {'too' if blocked_alive else 'NOT'}",
        detected_s <= 2.5 * HEARTBEAT_S + POLLED_S,
    )


def _publish(client: Client, ended: threading.Event) -> None:
    channel = client.channel()
    while not ended.wait(HEARTBEAT_S / 4):
        channel.publish("", "nowhere", b"in place of a heartbeat")


def _while_blocked(broker: BrokerProcess) -> bool:
    """Return whether a publisher that is blocked by an alarm, and therefore silent, stays connected."""
    client = broker.connect(heartbeat=HEARTBEAT_S)
    channel = client.channel()
    assert broker.warrenctl("set_vm_memory_high_watermark", "absolute", "1MB").returncode == 0
    channel.publish("", "q", b"held")
    time.sleep(3 * HEARTBEAT_S)
    assert broker.warrenctl("set_vm_memory_high_watermark", "0.6").returncode == 0
    try:
        while True:
            client.pump(50)
    except Silence:
        return not client.ended


def jumps(lab: Lab) -> Outcome:
    """The wall clock jumps while messages and a queue wait to expire, and a client has heartbeats."""
    broker = lab.broker()
    broker.clock_ahead_s = 0.0
    broker.start()
    texts, latest_s = [], 0.0
    for jump_s in (HOUR_S, -HOUR_S, -2 * HOUR_S):
        client = broker.connect(heartbeat=HEARTBEAT_S)
        channel = client.channel()
        channel.declare("ttl", arguments={"x-message-ttl": TTL_MS})
        channel.declare("short", arguments={"x-expires": EXPIRES_MS})
        channel.fill("ttl", b"one")
        began_s = time.monotonic()
        broker.clock_ahead_s = jump_s
        expired_s = _when(channel, client, began_s, lambda channel=channel: channel.count("ttl") == 0)
        names = broker.http()
        gone_s = _when(channel, client, began_s, lambda names=names: names.get("/queues/%2f/short").status == 404)
        assert not client.ended, "the client was taken for dead"
        late_s = expired_s - TTL_MS / 1000, gone_s - EXPIRES_MS / 1000
        assert min(late_s) > -1, f"{jump_s / HOUR_S:+.0f} h: {expired_s:.1f} s, {gone_s:.1f} s"
        latest_s = max(latest_s, *late_s)
        texts.append(
            f"{jump_s / HOUR_S:+.0f} h: TTL of 3 s after {expired_s:.1f} s, x-expires of 4 s after {gone_s:.1f} s"
        )
        client.vanish()
    return Timed(True, "; ".join(texts) + "; no connection was closed", latest_s < 1)


def _when(channel: Channel, client: Client, began_s: float, condition: object) -> float:
    def holds() -> bool:
        client.raw(BEAT)
        return bool(condition())  # type: ignore[operator]

    until(holds, "it expires", WITHIN_S, 0.05)
    return time.monotonic() - began_s


def soaked(lab: Lab) -> Outcome:
    report = soak(lab.folder, minutes=lab.scale, seed=lab.seed, every_s=5.0)
    verdicts = [line.good for line in report.lines]
    held = False if False in verdicts else None if None in verdicts else True
    return Outcome(held, "; ".join(str(line) for line in report.lines))


SCENARIOS = (
    Scenario(19, "missed heartbeats",
             "detected in 2 to 2.5 intervals (wanted: 2, +-1 s); requeued in order, redelivered; no false end",
             heartbeats),
    Scenario(26, "wall clock jumps by +-1 h", "TTLs, expiry and heartbeats are exact", jumps),
    Scenario(28, "mixed load with faults for long", "24 h: memory < 1 MB/h, descriptors flat, 0 lost", soaked,
             "1 minute"),
)  # fmt: skip
