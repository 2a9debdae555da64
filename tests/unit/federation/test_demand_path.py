"""The demand of a queue's consumers, and its paths over several hops (`federation-multi-hop`)."""

import random

import pytest

from tests.support.clock import FakeClock
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.users import Users
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.node.node import Node
from warren.broker.core.queues.consumers import Consumer
from warren.broker.core.queues.queue import Queue
from warren.broker.session.consumer import ChannelConsumer
from warren.federation.demand_path import (
    DEMAND,
    LOOKED,
    PATH_LIMIT,
    ConsumerDemand,
    Identity,
    Path,
    choose_path,
    consume_arguments,
    consumer_demand,
    decode_path,
    is_usable,
)

A, B, C, D = ((name, "/", "q") for name in "ABCD")


def demand(queue: Queue, own: Identity, upstream: Identity, multi_hop: bool, current: Path = ()) -> ConsumerDemand:
    steps = consumer_demand(queue, own, upstream, multi_hop, current)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert isinstance(end.value, ConsumerDemand)
            return end.value


@pytest.fixture
def queue() -> Queue:
    node = Node("n", "n", FakeClock(), Journal(), Users(frozenset()))
    return node.add_vhost("/").declare_queue("q", durable=True)


class Taker(ChannelConsumer):
    """A consumer that has room for this many messages at present, of those that its prefetch allows."""

    def __init__(self, queue: Queue, priority: int = 0, free: int = 1, prefetch: int = 10) -> None:
        Consumer.__init__(self, "t", self, False, False, priority)
        self.queue = queue
        self.asked = False
        self.free = free
        self.prefetch = prefetch
        self.arguments = Table.EMPTY

    @property
    def account(self) -> str:
        return ""

    def room(self, body_bytes: int) -> int:
        self.asked = True
        return self.free


def test_without_consumers_nothing_is_wanted(queue: Queue) -> None:
    assert demand(queue, B, A, False) == ConsumerDemand(None, 0, ())


def test_while_one_consumer_is_active_as_much_is_wanted_as_all_may_have(queue: Queue) -> None:
    busy, free = Taker(queue, 3, 0, 20), Taker(queue, 0, 1, 30)
    queue.add_consumer(busy)
    queue.add_consumer(free)
    assert demand(queue, B, A, False) == ConsumerDemand(0, 50, (B,))
    free.waiting = True
    assert demand(queue, B, A, False) == ConsumerDemand(None, 50, ())
    assert busy.waiting, "it is put off, so that it is woken when it has room"
    busy.free = 1
    queue.wake(busy)
    assert demand(queue, B, A, False) == ConsumerDemand(3, 50, (B,))


def test_a_consumer_without_a_limit_wants_all(queue: Queue) -> None:
    queue.add_consumer(Taker(queue, 0, 1, 0))
    assert demand(queue, B, A, False).room >= 1 << 30


def test_a_consumer_of_a_negative_priority_wants_nothing(queue: Queue) -> None:
    queue.add_consumer(Taker(queue, -5, 10))
    assert demand(queue, B, A, True) == ConsumerDemand(-5, 0, ())
    queue.add_consumer(Taker(queue, 2))
    assert demand(queue, B, A, False) == ConsumerDemand(2, 10, (B,))


def test_of_a_single_active_consumer_the_others_do_not_count() -> None:
    node = Node("n", "n", FakeClock(), Journal(), Users(frozenset()))
    arguments = Table.of({"x-single-active-consumer": True})
    queue = node.add_vhost("/").declare_queue("q", durable=True, arguments=arguments)
    assert demand(queue, B, A, False) == ConsumerDemand(None, 0, ())
    queue.add_consumer(Taker(queue, 0, 0))
    queue.add_consumer(Taker(queue, 5, 5))
    assert demand(queue, B, A, False) == ConsumerDemand(None, 10, ())


# Over several hops


class LinkConsumer(Taker):
    """The consumer of another broker's link, which names the queues of `path`."""

    def __init__(self, queue: Queue, path: Path, free: int = 1) -> None:
        arguments = consume_arguments(path, True)
        super().__init__(queue, arguments.integer("x-priority") or 0, free)
        self.arguments = arguments


def test_a_path_is_read_back_as_it_was_written() -> None:
    arguments = consume_arguments((B, C), True)
    assert arguments.get("x-priority") == ("l", -2)
    assert decode_path(arguments) == (B, C)
    assert consume_arguments((B,), False) == Table.of({"x-priority": ("l", -1)}), "as RabbitMQ's links have it"
    assert decode_path(consume_arguments((B,), False)) == ()


@pytest.mark.parametrize(
    "value",
    [
        "text",
        5,
        [],
        ["a"],
        [{"cluster-name": "A", "vhost": "/"}],
        [{"cluster-name": "A", "vhost": 5, "queue": "q"}],
        [{"cluster-name": "A", "vhost": "/", "queue": "q"}] * (PATH_LIMIT + 1),
    ],
)
def test_what_is_no_path_asks_for_nothing(value: object) -> None:
    assert decode_path(Table.of({DEMAND: value})) == ()


def test_a_link_consumer_counts_where_the_policy_says_so(queue: Queue) -> None:
    queue.add_consumer(LinkConsumer(queue, (C,)))
    queue.add_consumer(LinkConsumer(queue, (D,), 0))
    assert demand(queue, B, A, False) == ConsumerDemand(-1, 0, ())
    assert demand(queue, B, A, True) == ConsumerDemand(0, 10, (B, C)), "of those that are active"


def test_a_consumer_here_comes_before_those_of_others(queue: Queue) -> None:
    queue.add_consumer(LinkConsumer(queue, (C,), 5))
    queue.add_consumer(Taker(queue))
    assert demand(queue, B, A, True) == ConsumerDemand(0, 10, (B,))


def test_nobody_is_asked_for_what_he_wants_himself(queue: Queue) -> None:
    queue.add_consumer(LinkConsumer(queue, (A,)))
    queue.add_consumer(LinkConsumer(queue, (D, A)))
    queue.add_consumer(LinkConsumer(queue, (D, B, C)))
    assert demand(queue, B, A, True) == ConsumerDemand(-1, 0, ())
    assert demand(queue, B, C, True) == ConsumerDemand(0, 20, (B, A)), "but another one is"


def test_a_path_has_an_end() -> None:
    longest = tuple((f"c{index}", "/", "q") for index in range(PATH_LIMIT))
    assert not is_usable(longest, B, A)
    assert is_usable(longest[1:], B, A)
    assert not is_usable((), B, A)


def test_the_shortest_path_is_taken_and_kept() -> None:
    assert choose_path([(C, D), (D,), (C,)], ()) == (C,)
    assert choose_path([(C,), (D,)], (D,)) == (D,)
    assert choose_path([(C,), (D, C)], (D, C)) == (C,)
    assert choose_path([], (C,)) == ()


# Whole graphs: pairs of upstream and downstream, each with the path that the downstream consumes with

Links = dict[tuple[str, str], Path]


def identity(name: str) -> Identity:
    return (name, "/", "q")


def settle(links: Links, consumers: set[str], dice: random.Random) -> int:
    """Let links look, in any order, until nothing changes; how often something did."""
    changes = 0
    unchanged: set[tuple[str, str]] = set()
    while len(unchanged) < len(links):
        link = dice.choice(sorted(links.keys() - unchanged))
        upstream, downstream = link
        own, current = identity(downstream), links[link]
        if downstream in consumers:
            path: Path = (own,)
        else:
            named = [path for (at, _), path in links.items() if at == downstream and path]
            best = choose_path([path for path in named if is_usable(path, own, identity(upstream))], current[1:])
            path = (own, *best) if best else ()
        if path != current:
            links[link] = path
            changes += 1
            unchanged = set()
        else:
            unchanged.add(link)
        assert changes < 10_000, "it does not come to rest"
    return changes


def reaches(links: Links, start: str, without: str, consumers: set[str]) -> bool:
    """Whether messages that are there can come to a consumer, past the one without."""
    found, work = {start}, [start]
    while work:
        at = work.pop()
        if at in consumers:
            return True
        new = {down for up, down in links if up == at} - found - {without}
        found |= new
        work += new
    return False


def test_in_any_graph_demand_comes_to_each_broker_that_can_satisfy_it_and_ends_with_its_consumers() -> None:
    dice = random.Random(5)
    for _ in range(150):
        names = "ABCDEFG"[: dice.randint(2, 7)]
        links: Links = {(up, down): () for up in names for down in names if up != down and dice.random() < 0.4}
        for _ in range(4):
            consumers = {name for name in names if dice.random() < 0.3}
            settle(links, consumers, dice)
            for (upstream, downstream), path in links.items():
                assert not path or reaches(links, downstream, upstream, consumers)
                assert identity(upstream) not in path and len(set(path)) == len(path)
                assert not path or path[-1][0] in consumers
            for name in names:
                moves = any(path for (upstream, _), path in links.items() if upstream == name)
                assert name in consumers or moves == reaches(links, name, "", consumers), "nothing is left lying"
        settle(links, set(), dice)
        assert not any(links.values()), "somebody asks for nobody"


def test_very_many_consumers_are_looked_at_in_steps(queue: Queue) -> None:
    for _ in range(3 * LOOKED):
        queue.add_consumer(Taker(queue))
    steps = consumer_demand(queue, B, A, False)
    next(steps)
    last = list(queue.consumers.all)[-1]
    assert isinstance(last, Taker)
    queue.remove_consumer(last)
    assert len(list(steps)) == 2 and not last.asked, "it is gone"
    assert demand(queue, B, A, False) == ConsumerDemand(0, 10 * (3 * LOOKED - 1), (B,))
