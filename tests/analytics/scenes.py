"""Scenes at brokers, written as their logs: three brokers without a fault, and some with one."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from warren.plugins.message_log.file_format import schema

from .log import START, Log

Damage = Callable[[Log, list[int]], None]
LINK = "federation: x -> b"
MESSAGES = 40
REMOVED = 12


def well(folder: Path) -> list[Log]:
    """Write the logs of three brokers: the second has a link from the first that was cut, the third was restarted."""
    upstream, downstream = (Log(folder, f"rabbit@{name}").begin("work") for name in ("up", "down"))
    busy(upstream)
    linked(upstream, downstream)
    upstream.write()
    downstream.write()
    busy(downstream)
    for log in (upstream, downstream):
        log.stop()
    return [upstream, downstream, *restarted(folder)]


def busy(log: Log) -> None:
    """Log every event that a message can have, with the counts that result."""
    log.metric(schema.CPU_S, 1.0, schema.COUNTER)
    log.metric(schema.CHANNELS, 10)
    for number in range(MESSAGES):
        log.round_trip("work", routing_key=f"key.{number % 4}", message_id=f"{log.node}-{number}")
    log.publish(event=schema.PUBLISH, routing_key="nowhere")
    lost = log.publish(routing_key="nowhere")
    log.event(schema.RETURN, lost, routing_key="nowhere", exchange="x", size=100, user=log.user)
    both = log.publish("work", "copies")
    log.deliver(both, "copies", no_ack=True)
    log.expire(both, "work")
    refused = log.publish(routed=0, reason="refused")
    log.confirm(refused, "nack")
    poison = log.publish("work", message_id="poison")
    log.deliver(poison, "work")
    for _ in range(5):
        log.event(schema.NACK, poison, queue="work", user=log.user)
        log.requeue(poison, "work")
        log.deliver(poison, "work", redelivered=True)
    log.event(schema.NACK, poison, queue="work", user=log.user)
    copy = log.dead_letter(poison, "work", "dead")
    log.deliver(copy, "dead")
    log.snapshot()
    log.now_us += 10_000_000
    log.drop(log.publish("work"), "work")
    log.publish("work")
    log.metric(schema.CPU_S, 1.5, schema.COUNTER)
    log.metric(schema.CHANNELS, 100)
    log.metric(schema.CHANNELS_CREATED, 90, schema.COUNTER)
    log.metric(schema.LOOP_LAG_US, 500.0, schema.HISTOGRAM, buckets=[0, 0, 0, 50, 0, 2])


def linked(upstream: Log, downstream: Log) -> None:
    """Log ten messages over a link that is cut after the fifth, which is repeated, and one that stays in the queue."""
    downstream.now_us = upstream.now_us
    for number in range(10):
        identity = f"message-{number}"
        taken = upstream.publish(LINK, message_id=identity)
        upstream.deliver(taken, LINK)
        come = {"identity": identity, "link": LINK, "upstream": "up", "hops": 1}
        downstream.now_us = upstream.now_us + 2_000
        downstream.publish("arrived", event=schema.FED_IN, **come)
        if number == 5:
            upstream.requeue(taken, LINK)
            upstream.deliver(taken, LINK, redelivered=True)
            downstream.publish(event=schema.FED_IN, reason="duplicate", routed=0, **come)
        upstream.ack(taken, LINK, schema.FED_OUT, identity=identity, link=LINK)
    upstream.publish(LINK)
    downstream.metric(schema.LINK_STARTS, 2, schema.COUNTER, labels={"link": LINK})


def restarted(folder: Path) -> list[Log]:
    """Log a stop with three messages, and a start with two: one was transient."""
    first, second = Log(folder, "rabbit@again", "b1"), Log(folder, "rabbit@again", "b2", START + timedelta(minutes=5))
    first.snapshot(schema.START)
    for _ in range(3):
        first.publish("kept")
    first.stop()
    second.follow(first)
    numbers = second.recovered("kept", 2)
    second.snapshot(schema.START)
    second.deliver(numbers[0], "kept", redelivered=True)
    second.ack(numbers[0], "kept")
    second.stop()
    return [first, second]


def damaged(folder: Path) -> dict[str, Log]:
    """Write the log of a broker for each damage, by name."""
    logs = {name: Log(folder, f"rabbit@{name}") for name in DAMAGES}
    logs["sampled"].sample_rate = 0.25
    for name, log in logs.items():
        log.begin("work")
        if name == "jumped":
            log.round_trip("work")
            log.write()
            log.wall_jump_us = 3_600_000_000 * 3
        numbers = [log.round_trip("work", message_id=f"message-{n}") for n in range(20)]
        DAMAGES[name](log, numbers)
    return logs


def row_of(log: Log, event: str, number: int) -> int:
    rows = [row["row"] for row in log.tables[schema.EVENTS] if (row["event"], row["msg_seq"]) == (event, number)]
    found: int = rows[0]
    return found


def without(event: str) -> Damage:
    """Return a damage: the row of one message is removed from the log."""

    def damage(log: Log, numbers: list[int]) -> None:
        log.stop(row_of(log, event, numbers[REMOVED]))

    return damage


def without_a_message(log: Log, numbers: list[int]) -> None:
    log.stop(*[row["row"] for row in log.tables[schema.EVENTS] if row["msg_seq"] == numbers[REMOVED]])


def vanished(log: Log, numbers: list[int]) -> None:
    """Lose a message without an event or a gap."""
    number = log.publish("work")
    log.ready["work"].remove(number)
    log.stop()


def twice(log: Log, numbers: list[int]) -> None:
    """Log an acknowledgement twice."""
    log.event(schema.ACK, numbers[REMOVED], queue="work")
    log.stop()


def dropping(log: Log, numbers: list[int]) -> None:
    """Lose two records in a full buffer."""
    log.row += 2
    log.lost = 2
    log.stop()


def unstopped(log: Log, numbers: list[int]) -> None:
    """Kill the broker, and start it again."""
    log.snapshot()
    log.publish("work")
    log.write()
    again = Log(log.folder, log.node, "b2", START + timedelta(hours=1)).follow(log).begin()
    again.stop()


def unharmed(log: Log, numbers: list[int]) -> None:
    log.stop()


def sampled(log: Log, numbers: list[int]) -> None:
    """Log one message in four, while the queue has further messages."""
    log.ready["work"] += [-1] * 7
    log.stop()


DAMAGES: dict[str, Damage] = {
    "published": without(schema.PUBLISH),
    "enqueued": without(schema.ENQUEUE),
    "delivered": without(schema.DELIVER),
    "acknowledged": without(schema.ACK),
    "confirmed": without(schema.CONFIRM),
    "message": without_a_message,
    "vanished": vanished,
    "twice": twice,
    "jumped": unharmed,
    "dropping": dropping,
    "unstopped": unstopped,
    "sampled": sampled,
}
