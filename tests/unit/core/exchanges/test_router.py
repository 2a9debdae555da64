"""Routes from exchanges to queues, through other exchanges and alternate exchanges, and their cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.hypothesis_settings import examples
from tests.support.queues import new_queue
from tests.support.session import new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.built_in import new_registry
from warren.broker.core.exchanges.exchange import Exchange, binding_key
from warren.broker.core.exchanges.exchange_type import DESTINATIONS, STEP_COST
from warren.broker.core.exchanges.route_cache import LIMIT_BYTES, ROUTE_BYTES, RouteCache
from warren.broker.core.exchanges.router import SEARCH_COST, Route, Search
from warren.broker.core.jobs.scheduler import Scheduler
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.messages.message import ByteCount, Message, RoutingAddress, framed
from warren.broker.core.queues.ledger import Ledger
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.queue_host import QueueHost


class Map:
    """Exchanges and queues, created when they are named."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        clock, journal = FakeClock(), Journal()
        self.host = QueueHost("/", clock, journal, Ledger(0), Scheduler(clock, journal))
        self.exchange("", "direct")

    def exchange(self, name: str, type_: str = "fanout", alternate: str | None = None) -> None:
        arguments = Table.of({"alternate-exchange": alternate}) if alternate is not None else Table.EMPTY
        router = new_registry().create(type_, name, arguments)
        self.exchanges[name] = Exchange(
            "/", name, router, type_, durable=False, auto_delete=False, internal=False, arguments=arguments
        )

    def queue(self, name: str) -> None:
        self.queues[name] = Queue(self.host, name)

    def bind(self, source: str, destination: str, key: str = "", arguments: Table = Table.EMPTY) -> None:
        end = self.exchanges[destination] if destination in self.exchanges else self.queues[destination]
        self.exchanges[source].type.on_bind(Binding(source, end, key, arguments))

    def routed(self, exchange: str, *keys: str, message: Message | None = None) -> list[str]:
        return sorted(queue.name for queue in self.ask(exchange, *keys, message=message)[0])

    def ask(self, exchange: str, *keys: str, message: Message | None = None) -> tuple[tuple[Queue, ...], bool]:
        search = Search(self.exchanges[exchange], self.exchanges, self.queues, keys or ("",), message, Journal())
        assert search.run()
        return search.targets, search.stable


@pytest.fixture
def map_() -> Map:
    made = Map()
    for name in "pqr":
        made.queue(name)
    return made


def test_the_default_exchange_leads_to_each_named_queue_once(map_: Map) -> None:
    queues, stable = map_.ask("", "q", "nowhere", "p", "q")
    assert [queue.name for queue in queues] == ["q", "p"] and stable


def test_every_exchange_on_the_way_sees_the_same_keys(map_: Map) -> None:
    map_.exchange("a")
    map_.exchange("t", "topic")
    map_.exchange("d", "direct")
    map_.bind("a", "t")
    map_.bind("t", "d", "#")
    map_.bind("d", "q", "one.key")
    assert map_.routed("a", "one.key") == ["q"]
    assert map_.routed("a", "other") == []
    assert map_.routed("a", "other", "one.key") == ["q"]


def test_the_alternate_exchange_gets_messages_that_match_no_binding(map_: Map) -> None:
    map_.exchange("d", "direct", "spare")
    map_.exchange("spare")
    map_.bind("d", "p", "known")
    map_.bind("spare", "r")
    assert map_.routed("d", "known") == ["p"]
    assert map_.routed("d", "unknown") == ["r"]
    assert map_.routed("d", "unknown", "known") == ["p"]


def test_alternates_chain_and_their_cycles_end(map_: Map) -> None:
    for name, alternate in (("a", "b"), ("b", "c"), ("c", "a")):
        map_.exchange(name, "direct", alternate)
    assert map_.routed("a", "k") == []
    map_.bind("c", "q", "k")
    assert map_.routed("a", "k") == map_.routed("b", "k") == ["q"]


def test_an_exchange_that_was_bound_to_is_followed_by_its_own_alternate(map_: Map) -> None:
    map_.exchange("a")
    map_.exchange("b", "direct", "spare")
    map_.exchange("spare")
    map_.bind("a", "b")
    map_.bind("a", "p")
    map_.bind("spare", "q")
    assert map_.routed("a", "k") == ["p", "q"]


def test_a_binding_to_an_exchange_is_found_even_if_that_leads_nowhere(map_: Map) -> None:
    map_.exchange("a", alternate="spare")
    map_.exchange("b", "direct")
    map_.exchange("spare")
    map_.bind("a", "b")
    map_.bind("spare", "q")
    assert map_.routed("a", "k") == []


def test_an_alternate_that_is_missing_or_the_default_one(map_: Map) -> None:
    map_.exchange("a", "direct", "missing")
    map_.exchange("b", "direct", "")
    assert map_.routed("a", "q") == []
    assert map_.routed("b", "q", "p", "nowhere") == ["p", "q"]


def test_a_route_holds_unless_an_exchange_on_the_way_looks_at_the_message(map_: Map) -> None:
    map_.exchange("a", "direct", "h")
    map_.exchange("h", "headers")
    map_.bind("a", "p", "known")
    map_.bind("h", "q", arguments=Table.of({"x-match": "any", "colour": "red"}))
    assert map_.ask("a", "known")[1]
    assert map_.ask("a", "unknown") == ((), False)
    red = framed(RoutingAddress("a", "unknown"), Properties(headers=Table.of({"colour": "red"})), b"")
    assert map_.routed("a", "unknown", message=red) == ["q"]


names = st.sampled_from("abcde")


@given(st.lists(st.tuples(names, names), max_size=15), st.lists(st.tuples(names, st.sampled_from("pqr")), max_size=8))
@examples(100)
def test_fanouts_reach_what_can_be_reached(between: list[tuple[str, str]], to_queues: list[tuple[str, str]]) -> None:
    made = Map()
    for name in "abcde":
        made.exchange(name)
    for name in "pqr":
        made.queue(name)
    for source, destination in {*between, *to_queues}:
        made.bind(source, destination)
    reached = {"a"}
    for _ in range(5):
        reached |= {destination for source, destination in between if source in reached}
    assert made.routed("a") == sorted({queue for source, queue in to_queues if source in reached})


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("type_", ["direct", "fanout", "topic", "headers"])
def test_very_many_destinations_are_added_in_steps(map_: Map, type_: str, match: str) -> None:
    map_.exchange("x", type_)
    count = 4 * DESTINATIONS
    arguments = Table.of({"x-match": match, "h": 1} if match == "any" else {})
    for number in range(count):
        map_.queue(f"{number}")
        map_.bind("x", f"{number}", "k", arguments)
    message = framed(RoutingAddress("x", "k"), Properties(headers=Table.of({"h": 1})), b"")
    search = Search(map_.exchanges["x"], map_.exchanges, map_.queues, ("k",), message, Journal())
    before = longest = 0
    complete = False
    while not complete:
        complete = search.run(1)
        longest, before = max(longest, search.cost - before), search.cost
    assert len(search.targets) == count and longest <= SEARCH_COST + STEP_COST


def test_names_with_any_bytes_do_not_collide() -> None:
    one = binding_key("source", Destination("a"), "b\0c", Table.EMPTY)
    other = binding_key("source", Destination("a\0b"), "c", Table.EMPTY)
    assert one != other


EXCHANGE = new_node().vhosts["/"].exchange("amq.direct")
QUEUE = new_queue()


def route(targets: int) -> Route:
    return Route(RoutingAddress("x", "k"), EXCHANGE, (QUEUE,) * targets, False, frozenset())


def test_routes_to_very_many_queues_are_dropped_sooner() -> None:
    cache, wide = RouteCache(ByteCount()), route(4_000)
    for number in range(2_000):
        cache.remember(b"%d" % number, wide)
    assert 300 < len(cache) < LIMIT_BYTES // (8 * 4_000)
    assert list(cache)[-1] == b"1999" and cache.size_bytes <= LIMIT_BYTES
    narrow = route(1)
    for number in range(40_000):
        cache.remember(("x", str(number)), narrow)
    assert 20_000 < len(cache) < LIMIT_BYTES // ROUTE_BYTES


def test_a_route_that_is_larger_than_the_limit_is_not_kept() -> None:
    cache = RouteCache(ByteCount())
    cache.remember(b"k", route(LIMIT_BYTES // 8))
    assert not cache and not cache.size_bytes


def test_a_route_replaced_or_forgotten_counts_no_more() -> None:
    cache = RouteCache(ByteCount())
    for _ in range(10):
        cache.remember(b"k", route(1_000))
    assert cache.size_bytes == ROUTE_BYTES + RoutingAddress("x", "k").size_bytes + 4 + 8_000
    cache.pop(b"k")
    cache.pop(b"k")
    assert not cache.size_bytes
    cache.remember(b"k", route(1))
    cache.clear()
    assert not cache.size_bytes and not cache
