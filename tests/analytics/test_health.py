"""The health at the end of a log: ordinary traffic raises nothing, and a sick queue exactly its cause."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from warren.plugins.message_log.cli import headlines
from warren.plugins.message_log.file_format import schema

from .checking import ledger_of, values_of
from .log import START, Log

STEP_S = 10  # between two snapshots
QUEUE = "orders"


def report_of(folder: Path) -> dict[str, Any]:
    return values_of(ledger_of(folder / "log", folder / "facts"))


def started(folder: Path, *queues: str, boot_id: str = "b1", start: datetime = START) -> Log:
    return Log(folder / "log", boot_id=boot_id, start=start).begin(*queues)


def run(log: Log, steps: int, act: Callable[[int], object] = lambda step: None) -> None:
    """Let some steps pass, with a snapshot after each; `act` is called in each with its number."""
    for step in range(steps):
        end_us = log.now_us + STEP_S * 1_000_000
        act(step)
        log.now_us = max(log.now_us, end_us)
        log.snapshot()


def publish(log: Log, count: int, queue: str = QUEUE) -> None:
    for _ in range(count):
        log.publish(queue)


def consume(log: Log, count: int, queue: str = QUEUE) -> None:
    """Deliver and acknowledge up to `count` of the oldest messages."""
    for number in log.ready[queue][:count]:
        log.deliver(number, queue)
        log.ack(number, queue)


# Ordinary traffic: what happens in each step, how many there are, and the least number of ready messages at the end.
ORDINARY: dict[str, tuple[int, int, Callable[[Log, int], object]]] = {
    "a burst": (40, 0, lambda log, step: [publish(log, 300 if step < 8 else 5), consume(log, 120)]),
    "a burst of which a part is still there": (
        *(24, 100),
        lambda log, step: [publish(log, 300 if step < 8 else 5), consume(log, 60)],
    ),
    "a long burst that began to drain a minute ago": (
        *(40, 100),
        lambda log, step: [publish(log, 30 if step < 34 else 0), consume(log, 10 if step < 34 else 60)],
    ),
    "a ramp": (40, 1, lambda log, step: [publish(log, 10 * step), consume(log, 10 * step - step // 4)]),
    "returns to the publisher": (12, 0, lambda log, step: [give_back(log), log.round_trip(QUEUE)]),
    "answers to clients that are gone": (
        *(12, 0),
        lambda log, step: log.publish(exchange="", routing_key=f"amq.gen-{step}"),
    ),
    "a client that gets messages every minute": (
        *(30, 25),
        lambda log, step: [log.consumers.update({QUEUE: 0}), consume(log, 0 if step % 6 else 30), publish(log, 5)],
    ),
}


def give_back(log: Log) -> None:
    lost = log.publish(routing_key="nobody")
    log.event(schema.RETURN, lost, routing_key="nobody", exchange="x", size=100, user=log.user)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_traffic_raises_nothing(tmp_path: Path, name: str) -> None:
    steps, left, act = ORDINARY[name]
    log = started(tmp_path, QUEUE)
    run(log, steps, lambda step: act(log, step))
    assert len(log.ready[QUEUE]) >= left
    expect_nothing(log)


def expect_nothing(log: Log) -> None:
    log.write()
    made = report_of(log.folder.parent)
    assert made["wrong_now"] == []
    assert made["health"] == {"status": "well", "sentence": "Nothing is wrong now."}


def idle_night(log: Log) -> None:
    """A consumer that acknowledges in batches holds some messages while nothing comes."""
    run(log, 3, lambda step: [publish(log, 20), consume(log, 20)])
    publish(log, 7)
    for number in list(log.ready[QUEUE]):
        log.deliver(number, QUEUE)
    run(log, 60)


def deleted_queue(log: Log) -> None:
    """Messages wait in a queue without consumers, which is deleted."""
    log.consumers["gone"] = 0
    run(log, 6, lambda step: publish(log, 5, "gone"))
    del log.ready["gone"], log.unacked["gone"]
    run(log, 3)


def redelivered_before(log: Log) -> None:
    """A message that came back several times, and that a consumer holds since then."""
    number = log.publish(QUEUE)
    for attempt in range(9):
        log.deliver(number, QUEUE, redelivered=attempt > 0)
        log.requeue(number, QUEUE)
    log.deliver(number, QUEUE, redelivered=True)
    run(log, 12)


def restart(log: Log) -> Log:
    run(log, 12, lambda step: [publish(log, 30), consume(log, 30)])
    publish(log, 40)
    log.consumers[QUEUE] = 0
    log.stop()
    again = Log(log.folder, boot_id="b2", start=START + timedelta(minutes=5)).follow(log)
    again.recovered(QUEUE, 40)
    again.consumers[QUEUE] = 0
    again.snapshot(schema.START)
    run(again, 2)
    again.consumers[QUEUE] = 1
    run(again, 6, lambda step: [publish(again, 30), consume(again, 60)])
    return again


def time_to_live(log: Log) -> None:
    """Messages of a queue without consumers expire after a while; their rate grows."""
    log.consumers[QUEUE] = 0

    def act(step: int) -> None:
        for number in log.ready[QUEUE][: 8 * (step - 5) if step > 5 else 0]:
            log.expire(number, QUEUE)
        publish(log, 8 * step)

    run(log, 12, act)
    publish(log, 60)
    run(log, 4)


def retry_queue(log: Log) -> None:
    """Rejected messages wait in a queue without consumers, and return to their queue by its time to live."""
    log.consumers["retry"] = 0
    log.declare("retry")

    def act(step: int) -> None:
        for number in list(log.ready["retry"])[:6]:
            log.dead_letter(number, "retry", QUEUE, reason="expired")
        publish(log, 10)
        for number in list(log.ready[QUEUE])[:6]:
            log.deliver(number, QUEUE)
            log.dead_letter(number, QUEUE, "retry")
        consume(log, 20)

    run(log, 30, act)
    assert log.ready["retry"]


def link_restart(log: Log) -> None:
    link = "federation: x -> b"
    log.declare(link)

    def act(step: int) -> None:
        log.consumers[link] = int(step not in (5, 6))
        publish(log, 10, link)
        if step == 7:
            for number in log.ready[link][:4]:
                log.deliver(number, link)
                log.requeue(number, link)
                log.deliver(number, link, redelivered=True)
                log.ack(number, link, schema.FED_OUT, identity=str(number), link=link)
        if step not in (5, 6):
            for number in list(log.ready[link]):
                log.deliver(number, link)
                log.ack(number, link, schema.FED_OUT, identity=str(number), link=link)

    run(log, 14, act)


def long_jobs(log: Log) -> None:
    """Each message takes a consumer two minutes, and others wait."""
    publish(log, 20)
    held: list[int] = []

    def act(step: int) -> None:
        if step % 12 == 0:
            if held:
                log.ack(held.pop(), QUEUE)
            held.append(log.ready[QUEUE][0])
            log.deliver(held[0], QUEUE)

    run(log, 80, act)


def first_long_job(log: Log) -> None:
    """The first message of all takes a consumer ten minutes, and others wait."""
    publish(log, 20)
    log.deliver(log.ready[QUEUE][0], QUEUE)
    run(log, 60)


def long_job_among_short_ones(log: Log) -> None:
    """Few messages take two minutes, and most of them a millisecond."""
    for step in (12, 11):
        publish(log, 200)
        consume(log, 199)
        log.deliver(log.ready[QUEUE][0], QUEUE)
        publish(log, 20)
        run(log, step)
        if step == 12:
            log.ack(log.unacked[QUEUE][0], QUEUE)


def polled_with_rare_messages(log: Log) -> None:
    """A message arrives every 8 minutes just after a client has looked, which does so every 100 s."""
    log.consumers[QUEUE] = 0

    def act(step: int) -> None:
        consume(log, 10 if step % 10 == 9 else 0)
        publish(log, int(step % 50 == 0))

    run(log, 108, act)
    assert log.ready[QUEUE]


def cache_with_bursts(log: Log, had_a_consumer: bool = False) -> None:
    """A burst every 15 minutes waits in a queue without consumers until it expires after 10 minutes."""
    log.consumers[QUEUE] = int(had_a_consumer)

    def act(step: int) -> None:
        if step == 0 and had_a_consumer:
            log.round_trip(QUEUE)
        log.consumers[QUEUE] = 0
        for number in list(log.ready[QUEUE]) if step % 90 == 69 else ():
            log.expire(number, QUEUE)
        publish(log, 5 if step % 90 == 9 else 0)

    run(log, 140, act)
    assert log.ready[QUEUE]


def cache_that_had_a_consumer(log: Log) -> None:
    cache_with_bursts(log, had_a_consumer=True)


def dead_letter_queue_that_was_late(log: Log) -> None:
    """The first dead letters go to no queue, until theirs is bound."""

    def act(step: int) -> None:
        number = log.publish(QUEUE)
        log.deliver(number, QUEUE)
        log.event(schema.NACK, number, queue=QUEUE, user=log.user)
        copy = log.dead_letter(number, QUEUE, *(["dead"] if step > 2 else []))
        if step > 2:
            log.deliver(copy, "dead")
            log.ack(copy, "dead")

    run(log, 12, act)


def unattended(log: Log) -> None:
    """Messages wait in a delay queue until it dead-letters them, and one in a queue of maximum length one."""
    log.unattended = {"delay", "last value"}
    log.consumers = dict.fromkeys(log.unattended, 0)
    log.publish("last value")
    run(log, 40, lambda step: publish(log, 3, "delay"))


def redeployment(log: Log) -> None:
    """A consumer that has been idle leaves, and one message waits for its successor for less than two minutes."""
    run(log, 3, lambda step: [publish(log, 5), consume(log, 5)])
    run(log, 2)
    log.consumers[QUEUE] = 0
    publish(log, 1)
    run(log, 7)


def sampled(log: Log) -> None:
    """A log that has the events of few messages: the counters of the snapshots show that the others are settled."""
    log.sample_rate = 0.01

    def act(step: int) -> None:
        publish(log, 20)
        for number in log.ready[QUEUE][: 20 - 2 * (step == 0)]:
            log.deliver(number, QUEUE)
            log.ack(number, QUEUE)
        if step > 2:
            log.tables[schema.EVENTS].clear()

    publish(log, 2)
    log.deliver(log.ready[QUEUE][0], QUEUE)
    run(log, 30, act)
    assert log.ready[QUEUE] and log.unacked[QUEUE]


HISTORIES = (
    *(idle_night, deleted_queue, redelivered_before, restart, time_to_live, retry_queue, link_restart),
    *(long_jobs, first_long_job, long_job_among_short_ones, unattended, redeployment, sampled),
    *(polled_with_rare_messages, cache_with_bursts, cache_that_had_a_consumer, dead_letter_queue_that_was_late),
)


@pytest.mark.parametrize("history", HISTORIES)
def test_an_ordinary_history_raises_nothing(tmp_path: Path, history: Callable[[Log], Log | None]) -> None:
    log = started(tmp_path, QUEUE)
    expect_nothing(history(log) or log)


@pytest.mark.parametrize(
    ("steps", "period_s"), [(5, 60), (9, 100), (11, 60), (17, 60), (19, 100), (23, 61), (29, 100), (53, 63), (58, 59)]
)
def test_a_queue_that_is_polled_raises_nothing_also_in_a_young_boot(tmp_path: Path, steps: int, period_s: int) -> None:
    """A message enters every second. Snapshots that follow a poll see those of up to 10 s."""
    log = started(tmp_path, QUEUE)
    log.consumers[QUEUE] = 0

    def act(step: int) -> None:
        for second in range(10 * step, 10 * step + 10):
            consume(log, 200 if second % period_s == period_s - 1 else 0)
            publish(log, 1)

    run(log, steps, act)
    expect_nothing(log)


def no_consumer(log: Log, step: int) -> None:
    log.consumers[QUEUE] = int(step < 5)
    publish(log, 10)
    consume(log, 10 if step < 5 else 0)


def no_consumer_and_one_get(log: Log, step: int) -> None:
    no_consumer(log, step)
    if step == 7:
        number = log.ready[QUEUE][0]
        log.deliver(number, QUEUE)
        log.requeue(number, QUEUE)


def no_consumer_and_one_expiry_before(log: Log, step: int) -> None:
    if step == 0:
        log.expire(log.publish(QUEUE), QUEUE)
    no_consumer(log, step)


def no_consumer_and_polled_after_an_expiry(log: Log, step: int) -> None:
    log.consumers[QUEUE] = 0
    if step == 0:
        log.expire(log.publish(QUEUE), QUEUE)
    publish(log, 10)
    consume(log, 10 if step < 5 else 0)


def no_consumer_any_more(log: Log, step: int) -> None:
    """A queue whose messages expire to a dead letter exchange, which had consumers."""
    log.unattended = {QUEUE}
    no_consumer(log, step)


def stuck(log: Log, step: int) -> None:
    publish(log, 10)
    consume(log, 10 if step < 5 else 0)
    if step == 5:
        for number in log.ready[QUEUE][:3]:
            log.deliver(number, QUEUE)


def stuck_without_a_prefetch(log: Log, step: int) -> None:
    publish(log, 10)
    consume(log, 10 if step < 5 else 0)
    for number in list(log.ready[QUEUE]):
        log.deliver(number, QUEUE)


def blocked(log: Log, step: int) -> None:
    publish(log, 10 if step < 8 else 0)
    consume(log, 10 if step < 5 else 0)


def poison(log: Log, step: int) -> None:
    publish(log, 10)
    bad, *good = log.ready[QUEUE]
    for number in good[:9]:
        log.deliver(number, QUEUE)
        log.ack(number, QUEUE)
    for attempt in range(3):
        log.deliver(bad, QUEUE, redelivered=step > 0 or attempt > 0)
        log.event(schema.NACK, bad, queue=QUEUE, user=log.user)
        log.requeue(bad, QUEUE)


def poison_at_the_head(log: Log, step: int) -> None:
    """The consumer gets one message again and again; the others stay."""
    publish(log, 10 if step < 2 else 0)
    bad = log.ready[QUEUE][0]
    for attempt in range(3):
        log.deliver(bad, QUEUE, redelivered=step > 0 or attempt > 0)
        log.requeue(bad, QUEUE)


def slow(log: Log, step: int) -> None:
    publish(log, 10)
    consume(log, 10 if step < 5 else 3)


def slow_from_the_first_message_on(log: Log, step: int) -> None:
    """A consumer holds its prefetch of two messages."""
    publish(log, 10)
    if step == 0:
        for number in log.ready[QUEUE][:2]:
            log.deliver(number, QUEUE)


def growing(log: Log, step: int) -> None:
    """A client gets some of the messages from time to time."""
    log.consumers[QUEUE] = 0
    publish(log, 10)
    consume(log, 10 if step < 5 else 3)


def typo(log: Log, step: int) -> None:
    log.round_trip(QUEUE)
    log.publish(routing_key="odrers")
    if step == 5:
        log.publish(routing_key="oders")


def deleted(log: Log, step: int) -> None:
    """The binding of a key is removed."""
    log.publish(*([QUEUE] if step < 8 else []), routing_key="odrers")
    consume(log, 1)


def dead_letters_without_a_queue(log: Log, step: int) -> None:
    """The binding of the dead letter queue is removed."""
    number = log.publish(QUEUE)
    log.deliver(number, QUEUE)
    log.event(schema.NACK, number, queue=QUEUE, user=log.user)
    copy = log.dead_letter(number, QUEUE, *(["well"] if step < 8 else []))
    if step < 8:
        log.deliver(copy, "well")
        log.ack(copy, "well")


def dead_letters_in_a_cycle(log: Log, step: int) -> None:
    """Messages expire to their own queue, where each expires again."""
    copy = log.dead_letter(log.publish(QUEUE), QUEUE, QUEUE, reason="expired")
    log.dead_letter(copy, QUEUE, reason="expired", why="cycle")


def dead_letters_that_are_refused(log: Log, step: int) -> None:
    """The dead letter queue is full most of the time."""
    number = log.publish(QUEUE)
    log.deliver(number, QUEUE)
    log.event(schema.NACK, number, queue=QUEUE, user=log.user)
    full = step > 7 and step % 4 != 0
    copy = log.dead_letter(number, QUEUE, *([] if full else ["well"]), why="refused" if full else "")
    if not full:
        log.deliver(copy, "well")
        log.ack(copy, "well")


def no_consumer_and_one_expiration(log: Log, step: int) -> None:
    """A queue that never had a consumer, of whose messages one has an expiration."""
    log.consumers[QUEUE] = 0
    publish(log, 51 if step == 0 else 0)
    if step == 1:
        log.expire(log.ready[QUEUE][0], QUEUE)


def no_consumer_since_a_purge(log: Log, step: int) -> None:
    log.consumers[QUEUE] = 0
    for number in list(log.ready[QUEUE]) if step == 5 else ():
        log.drop(number, QUEUE, "purged")
    publish(log, 10)


@pytest.mark.parametrize(
    ("cause", "act", "text", "since_s"),
    [
        ("no consumer", no_consumer, "150 messages wait", 50),
        ("no consumer", no_consumer_and_one_get, "150 messages wait", 70),
        ("no consumer", no_consumer_and_one_expiry_before, "150 messages wait", 50),
        ("no consumer", no_consumer_and_polled_after_an_expiry, "150 messages wait", 50),
        ("no consumer", no_consumer_any_more, "150 messages wait", 50),
        ("no consumer", no_consumer_and_one_expiration, "50 messages wait", 0),
        ("no consumer", no_consumer_since_a_purge, "150 messages wait", 50),
        ("stuck", stuck, "3 messages delivered and none settled, 147 more wait", 50),
        ("stuck", stuck_without_a_prefetch, "150 messages delivered and none settled, 0 more wait", 50),
        ("blocked", blocked, "nothing is delivered to its consumers, 30 messages wait", 50),
        ("poison", poison, "one message was delivered 60 times, 20 messages wait", 0),
        ("poison", poison_at_the_head, "one message was delivered 60 times, 20 messages wait", 0),
        ("slow", slow, "consumers do not keep up, 105 messages wait, 0.7 more every second", 50),
        ("slow", slow_from_the_first_message_on, "consumers have settled none yet, 198 messages wait, 1.0 more", 0),
        ("growing", growing, "messages enter faster than they leave, 105 messages wait, 0.7 more", 50),
        ("unroutable", deleted, "12 messages went to no queue", 80),
        ("unroutable", dead_letters_without_a_queue, "12 dead letters went to no queue", 80),
        ("unroutable", dead_letters_in_a_cycle, "20 dead letters went to no queue, in a cycle of queues", 0),
        ("unroutable", dead_letters_that_are_refused, "9 dead letters went to no queue, refused by a full one", 90),
        ("unroutable", typo, "21 messages went to no queue, with 2 keys", 0),
    ],
)
def test_a_sick_queue_raises_its_cause_and_nothing_else(
    tmp_path: Path, cause: str, act: Callable[[Log, int], None], text: str, since_s: int
) -> None:
    log = started(tmp_path, QUEUE, "well")
    run(log, 20, lambda step: [act(log, step), log.round_trip("well")])
    log.consumers[QUEUE] = 0  # the clients leave before the broker stops
    for number in list(log.unacked[QUEUE]):
        log.requeue(number, QUEUE)
    log.stop()
    made = report_of(tmp_path)
    (found,) = made["wrong_now"]
    assert (found["cause"], found["node"], found["vhost"]) == (cause, log.node, "/")
    assert found["queue"] == (None if cause == "unroutable" else QUEUE) and text in found["text"]
    since = datetime.fromisoformat(found["since"]) - START
    assert since_s <= since.total_seconds() <= since_s + 1
    assert made["health"]["status"] == "wrong" and found["line"] in made["health"]["sentence"]
    number = int(found["message"].removeprefix("b1/"))
    if cause == "unroutable":
        assert sum(row["unroutable"] for row in made["unroutable"]) == found["messages"]
        names = ("dead", "key") if act.__name__.startswith("dead_letters") else ("x", "odrers")
        assert (found["exchange"], found["routing_key"]) == names
        assert f"{names[0]} with the key {names[1]!r} at rabbit@a /" in found["line"]
    else:
        assert number in log.ready[QUEUE] + log.unacked[QUEUE]
    (backlog,) = [row for row in made["backlog"] if row["queue"] == QUEUE]
    assert backlog["consumers"] == int(cause not in ("no consumer", "growing"))


def test_the_worst_is_first_and_a_link_that_is_down_is_named(tmp_path: Path) -> None:
    log = started(tmp_path, "federation: x -> b", "slow", "stuck")
    log.consumers["federation: x -> b"] = 0

    def act(step: int) -> None:
        publish(log, 30, "federation: x -> b")
        publish(log, 10, "slow")
        consume(log, 5, "slow")
        publish(log, 1, "stuck")
        if step == 0:
            consume(log, 1, "stuck")
        if step == 1:
            log.deliver(log.ready["stuck"][0], "stuck")

    run(log, 12, act)
    log.write()
    made = report_of(tmp_path)
    assert [row["cause"] for row in made["wrong_now"]] == ["stuck", "no consumer", "slow"]
    assert "its federation link is down, 360 messages wait" in made["wrong_now"][1]["text"]
    assert made["health"]["sentence"].startswith("3 things are wrong now, the worst: stuck at rabbit@a /: stuck")


def test_the_last_lines_of_the_command_are_both_headlines() -> None:
    well = {"status": "well", "sentence": "Nothing is wrong now."}
    report = {"verdict": "Nothing is missing.", "health": well, "wrong_now": [], "rows": {"wrong_now": 0}, "lost": []}
    assert list(headlines(report)) == ["Nothing is wrong now.", "Nothing is missing."]
    wrong = [{"line": f"q{number}: stuck", "message": f"b1/{number}" if number else None} for number in range(12)]
    report |= {
        "wrong_now": wrong,
        "rows": {"wrong_now": 12},
        "input": {"folder": "/a log"},
        "lost": [{"message": "b1/7"}],
    }
    lines = list(headlines(report))
    assert lines[:2] == ["wrong now: q0: stuck", "wrong now: q1: stuck: warren trace b1/1 --input '/a log'"]
    assert lines[-3::2] == ["wrong now: 2 more, in report.json", "Nothing is missing."] and len(lines) == 13
    assert lines[-2] == "lost, for example: warren trace b1/7 --input '/a log'"


@pytest.mark.parametrize(
    ("gauge", "value", "limit", "bound"),
    [
        (schema.RESIDENT_BYTES, 900, schema.MEMORY_LIMIT_BYTES, 800),
        (schema.DISK_FREE_BYTES, 900, schema.DISK_LIMIT_BYTES, 1000),
    ],
)
def test_a_node_at_a_limit_blocks_publishers(tmp_path: Path, gauge: str, value: int, limit: str, bound: int) -> None:
    log = started(tmp_path, QUEUE)

    def act(step: int) -> None:
        log.metric(limit, bound)
        log.metric(gauge, value if step > 5 else 2 * bound - value)

    run(log, 12, act)
    log.write()
    (found,) = report_of(tmp_path)["wrong_now"]
    assert (found["cause"], found["queue"], found["message"]) == ("blocked", None, None)
    assert datetime.fromisoformat(found["since"]) == START + timedelta(seconds=60)


def test_a_log_without_snapshots_says_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.round_trip(QUEUE)
    log.write()
    assert report_of(tmp_path)["health"]["status"] == "unknown"


def test_a_node_that_was_stopped_long_ago_is_not_judged(tmp_path: Path) -> None:
    old, new = started(tmp_path, QUEUE), Log(tmp_path / "log", "rabbit@new", start=START + timedelta(hours=1))
    run(old, 20, lambda step: no_consumer(old, step))
    old.write()
    new.snapshot(schema.START)
    run(new, 3, lambda step: new.round_trip(QUEUE))
    new.write()
    assert report_of(tmp_path)["wrong_now"] == []


def test_after_a_kill_no_queue_has_fewer_messages_than_an_old_snapshot(tmp_path: Path) -> None:
    log = started(tmp_path, QUEUE)
    publish(log, 5)
    run(log, 2)
    consume(log, 3)
    log.write()
    again = Log(tmp_path / "log", boot_id="b2", start=START + timedelta(minutes=1)).follow(log)
    again.recovered(QUEUE, 2)
    again.snapshot(schema.START)
    again.write()
    (row,) = report_of(tmp_path)["conservation"]["restarts"]
    assert (row["stopped"], row["before"], row["after"], row["fewer"]) == (False, None, 2, None)


def test_times_are_of_the_newest_boot(tmp_path: Path) -> None:
    first = started(tmp_path, QUEUE)
    run(first, 10, lambda step: slow(first, 9))
    first.stop()
    again = Log(tmp_path / "log", boot_id="b2", start=datetime(2026, 11, 22, 5, 40, tzinfo=UTC)).follow(first)
    again.recovered(QUEUE, len(first.ready[QUEUE]))
    again.snapshot(schema.START)
    run(again, 10, lambda step: stuck(again, step + 5))
    again.write()
    (found,) = report_of(tmp_path)["wrong_now"]
    assert found["cause"] == "stuck" and found["since"].startswith("2026-11-22T05:40:0")
    assert found["message"].startswith("b2/")
