"""The consumer timeout, check by check: when unsettled deliveries are given up."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic
from pytest import MonkeyPatch

from tests.support.amqp_client import Channel, Client
from tests.support.clock import fake_clock
from tests.support.session import connected, new_node, pipe_of
from warren.broker.core.jobs.scheduler import SLICE, Job, Scheduler
from warren.broker.core.node.node import Node
from warren.broker.session import consumer_timeout
from warren.broker.session.channel import Channel as ServerChannel
from warren.broker.session.connection import Connection
from warren.broker.session.consumer_timeout import Noted, Timeouts
from warren.broker.session.unacked import Unacked

MINUTE_MS = 60_000
MANY = 2 * SLICE


class Watch:
    """A node with one channel, and the checks of its timeouts."""

    def __init__(self, default_ms: int | None) -> None:
        self.node: Node = new_node()
        self.clock = fake_clock(self.node.clock)
        self.connections: list[Connection] = []
        self.channel = self.open().channel()
        self.timeouts = Timeouts(self.node, default_ms, lambda: self.connections)
        self.timeouts.start()

    def open(self) -> Client:
        client = connected(self.node)
        self.connections.append(pipe_of(client).connection)
        return client

    def hold(self, queue: str, **arguments: object) -> Channel:
        """Declare a queue, and get a message from it that stays unsettled."""
        self.channel.declare(queue, arguments=arguments)
        self.channel.publish("", queue, b"one")
        assert self.channel.get(queue, no_ack=False) is not None
        return self.channel

    def open_channels(self) -> int:
        return sum(not channel.closing for each in self.connections for channel in each.channels.values())


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch(None)
    yield watch
    watch.timeouts.stop()


def test_without_a_timeout_nothing_is_given_up_and_a_check_a_minute_is_enough(
    watch: Watch, monkeypatch: MonkeyPatch
) -> None:
    watch.hold("q")
    checks = count_checks(watch, monkeypatch)
    watch.clock.advance(60 * MINUTE_MS)
    assert watch.open_channels() == 1 and len(checks) == 60


def test_a_short_timeout_is_looked_after_more_often(watch: Watch) -> None:
    watch.hold("q", **{"x-consumer-timeout": 8000})
    watch.clock.advance(MINUTE_MS)  # the first check, which finds the timeout
    watch.clock.advance(8000 - 1)
    assert watch.open_channels() == 1
    watch.clock.advance(2000)
    assert watch.open_channels() == 0
    watch.channel.expect_close(406)


def test_what_has_no_timeout_hides_nothing_behind_it(watch: Watch) -> None:
    watch.channel.declare("q", arguments={"x-consumer-timeout": 8000})
    watch.hold("first")
    watch.channel.consume("q")
    watch.channel.publish("", "q", b"one")
    watch.channel.delivery()
    watch.clock.advance(2 * MINUTE_MS)
    watch.channel.expect_close(406)


def test_a_longer_timeout_at_the_front_does_not_wait_for_a_shorter_one(watch: Watch) -> None:
    watch.hold("slow", **{"x-consumer-timeout": 60 * MINUTE_MS})
    watch.channel.declare("q", arguments={"x-consumer-timeout": 1000})
    watch.channel.consume("q")
    watch.channel.publish("", "q", b"one")
    watch.channel.ack(watch.channel.delivery().tag)
    watch.clock.advance(59 * MINUTE_MS)
    assert watch.open_channels() == 1
    watch.clock.advance(3 * MINUTE_MS)
    assert watch.open_channels() == 0


def test_behind_a_longer_timeout_a_delivery_has_its_own_time_from_the_first_check_after_it(watch: Watch) -> None:
    watch.hold("slow", **{"x-consumer-timeout": 60 * MINUTE_MS})
    watch.channel.declare("q", arguments={"x-consumer-timeout": 1000})
    watch.channel.consume("q")
    watch.clock.advance(2 * MINUTE_MS)
    watch.channel.publish("", "q", b"one")
    watch.channel.delivery()
    watch.clock.advance(900)
    assert watch.open_channels() == 1
    watch.clock.advance(600)
    watch.channel.expect_close(406)


def test_the_time_counts_from_the_delivery_not_from_the_last_of_them(watch: Watch) -> None:
    watch.hold("q", **{"x-consumer-timeout": 10 * MINUTE_MS})
    for _ in range(9):
        watch.clock.advance(MINUTE_MS)
        watch.hold("q", **{"x-consumer-timeout": 10 * MINUTE_MS})
    assert watch.open_channels() == 1
    watch.clock.advance(2 * MINUTE_MS)
    assert watch.open_channels() == 0


def test_zero_gives_up_at_the_second_look(watch: Watch) -> None:
    watch.hold("q", **{"x-consumer-timeout": 0})
    watch.clock.advance(MINUTE_MS + 200)
    assert watch.open_channels() == 0


def test_after_the_stop_nothing_is_looked_at(watch: Watch) -> None:
    watch.hold("q", **{"x-consumer-timeout": 1000})
    watch.timeouts.stop()
    watch.clock.advance(10 * MINUTE_MS)
    assert watch.open_channels() == 1


def count_checks(watch: Watch, monkeypatch: MonkeyPatch) -> list[str]:
    """A list that grows with each check."""
    checks: list[str] = []
    start = watch.node.scheduler.start

    def counted(name: str, *arguments: Any) -> None:
        checks.append(name)
        start(name, *arguments)

    monkeypatch.setattr(Scheduler, "start", staticmethod(counted))
    return checks


class CountedTimeouts(Timeouts):
    """Timeouts that count in `looked` how often the channels of each connection were checked."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch.node, 30 * MINUTE_MS, lambda: watch.connections)
        self.looked: Counter[Connection] = Counter()

    def _check(self, channel: ServerChannel, noted: Noted, renew: bool) -> Job:
        self.looked[channel.connection] += 1
        return super()._check(channel, noted, renew)


def test_a_short_timeout_of_one_client_has_the_others_looked_at_no_more_often(watch: Watch) -> None:
    watch.timeouts.stop()
    plain = watch.hold("plain")
    hurried = watch.open().channel()
    hurried.declare("short")
    hurried.publish("", "short", b"one")
    hurried.consume("short", arguments={"x-consumer-timeout": MINUTE_MS})
    hurried.delivery()
    timeouts = CountedTimeouts(watch)
    timeouts.start()
    for _ in range(20):
        watch.clock.advance(MINUTE_MS // 8)
    assert timeouts.looked[pipe_of(plain.client).connection] == 2
    assert timeouts.looked[pipe_of(hurried.client).connection] > 4
    hurried.expect_close(406)
    assert watch.open_channels() == 1
    timeouts.stop()


def test_a_timeout_is_no_failed_delivery_of_a_quorum_queue(watch: Watch) -> None:
    watch.channel.declare("q", durable=True, arguments={"x-queue-type": "quorum", "x-consumer-timeout": MINUTE_MS})
    watch.channel.publish("", "q", b"one")
    for _ in range(2):
        assert watch.channel.get("q", no_ack=False) is not None
        watch.clock.advance(3 * MINUTE_MS)
        watch.channel.expect_close(406)
        watch.channel = watch.channel.client.channel()
    got = watch.channel.get("q")
    assert got is not None and "x-delivery-count" not in (got.headers or {})


def count_looks(watch: Watch, monkeypatch: MonkeyPatch) -> list[object]:
    """A list that grows with each look at an entry of the channel's deliveries, and at the timeout of a consumer."""
    looks: list[object] = []

    class Counted(dict[int, Unacked]):
        def get(self, *arguments: Any) -> Any:
            looks.append(arguments)
            return super().get(*arguments)

        def _refuse(self) -> Any:
            raise AssertionError("all entries are looked at")

        __iter__ = items = values = _refuse  # type: ignore[assignment]

    def counted(*arguments: Any) -> int:
        looks.append(arguments)
        return timeout_ms(*arguments)

    timeout_ms = consumer_timeout.timeout_ms
    monkeypatch.setattr(consumer_timeout, "timeout_ms", counted)
    unacked = pipe_of(watch.channel.client).connection.channels[watch.channel.number].unacked
    unacked.entries = Counted(unacked.entries)
    return looks


def hold_many(watch: Watch) -> None:
    """Many deliveries without a timeout, and many consumers of the same channel, one with a short timeout."""
    watch.channel.declare("many")
    watch.channel.declare("none")
    watch.channel.fill("many", *[b""] * MANY)
    watch.channel.consume("many")
    watch.channel.deliveries(MANY)
    for number in range(MANY):
        arguments = {"x-consumer-timeout": 400} if not number else {}
        watch.channel.send(Basic.Consume, queue="none", consumer_tag=f"{number}", nowait=True, arguments=arguments)


def test_no_delivery_is_looked_at_again_before_one_may_be_overdue(watch: Watch, monkeypatch: MonkeyPatch) -> None:
    hold_many(watch)
    looks = count_looks(watch, monkeypatch)
    watch.clock.advance(MINUTE_MS + 200)
    assert len(looks) > MANY
    looks.clear()
    checks = count_checks(watch, monkeypatch)
    watch.channel.publish("", "none", b"one")
    tag = watch.channel.delivery().tag
    watch.clock.advance(300)
    watch.channel.ack(tag)
    watch.clock.advance(30_000)
    assert len(checks) > 300 and len(looks) < 10
    assert watch.open_channels() == 1


def test_a_check_of_many_deliveries_and_consumers_is_made_in_steps(watch: Watch, monkeypatch: MonkeyPatch) -> None:
    hold_many(watch)
    looks = count_looks(watch, monkeypatch)
    watch.clock.advance(MINUTE_MS - 1)
    watch.timeouts._renew_at_ms = watch.timeouts._all_at_ms = 0
    for _ in watch.timeouts._check_all():
        assert len(looks) <= SLICE + 1
        looks.clear()


@pytest.mark.parametrize("others", [False, True])
def test_a_delivery_that_is_rolled_back_is_timed_again(watch: Watch, others: bool) -> None:
    watch.hold("q", **{"x-consumer-timeout": 3 * MINUTE_MS})
    if others:
        watch.hold("no timeout")
    watch.channel.transact()
    watch.clock.advance(MINUTE_MS)
    watch.channel.ack(1)
    watch.clock.advance(10 * MINUTE_MS)
    watch.channel.rollback()
    assert watch.open_channels() == 1
    watch.clock.advance(5 * MINUTE_MS)
    watch.channel.expect_close(406)


def test_a_timeout_that_a_policy_sets_counts_from_the_delivery(watch: Watch) -> None:
    watch.hold("q")
    watch.clock.advance(5 * MINUTE_MS)
    watch.node.policies.set("/", "p", "q", {"consumer-timeout": 3 * MINUTE_MS})
    watch.clock.advance(MINUTE_MS)
    watch.channel.expect_close(406)


def test_what_checks_keep_does_not_grow_with_the_time(watch: Watch) -> None:
    """One message is always unsettled, beside a first one that stays so."""
    watch.hold("q", **{"x-consumer-timeout": 24 * 60 * MINUTE_MS})
    watch.channel.declare("short", arguments={"x-consumer-timeout": 4_000})
    watch.channel.consume("short")
    tag = 0
    for _ in range(600):
        watch.channel.publish("", "q", b"one")
        got = watch.channel.get("q", no_ack=False)
        assert got is not None
        watch.clock.advance(1_000)
        if tag:
            watch.channel.ack(tag)
        tag = got.tag
    [noted] = watch.timeouts._noted.values()
    assert len(noted._groups) <= 2 * MINUTE_MS // 1_000
