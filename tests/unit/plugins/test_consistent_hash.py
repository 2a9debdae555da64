"""x-consistent-hash: shares of keys, keys that move when a destination is added or removed, and refused arguments."""

import random
from collections import Counter
from functools import cache

import pytest

from tests.support.queues import routed
from tests.support.session import new_node
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges.consistent_hash import WEIGHT_LIMIT, ConsistentHashExchange

KEYS = [f"order-{number}" for number in range(100_000)]
SOME = KEYS[:5000]
TEN = tuple(f"q{number}" for number in range(10))


def message(**properties: object) -> Message:
    return framed(RoutingAddress("x", "k"), Properties(**properties), b"")


MESSAGE = message()


class Ring:
    """An exchange and its bindings."""

    def __init__(self, **arguments: object) -> None:
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.exchange = ConsistentHashExchange("x", Table.of(named))
        self.destinations: dict[str, Destination] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}

    def bind(self, name: str, weight: int | str = 1) -> None:
        destination = self.destinations.setdefault(name, Destination(name))
        binding = Binding("x", destination, str(weight), Table.EMPTY)
        self.exchange.validate_binding(binding.routing_key, binding.arguments, "classic")
        assert not list(self.exchange.on_bind(binding))
        self._bindings[name, str(weight)] = binding

    def unbind(self, name: str, weight: int | str = 1) -> None:
        assert not list(self.exchange.on_unbind(self._bindings.pop((name, str(weight)))))

    def routed(self, *keys: str, message: Message = MESSAGE) -> list[str]:
        return [destination.name for destination in self.exchange.route(keys, message)]

    def placed(self, keys: list[str] = SOME) -> list[str]:
        """Return the one destination of each key."""
        placed = []
        for key in keys:
            (destination,) = self.exchange.route((key,), MESSAGE)
            placed.append(destination.name)
        return placed


def ring(*names: str, **weights: int) -> Ring:
    made = Ring()
    for name in names:
        made.bind(name)
    for name, weight in weights.items():
        made.bind(name, weight)
    return made


@cache
def equal(*names: str) -> list[str]:
    """Return the queues to which KEYS are routed, if all weights are equal."""
    return ring(*names).placed(KEYS)


def moved(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    return [(old, new) for old, new in zip(before, after, strict=True) if old != new]


# Shares


@pytest.mark.parametrize("weights", [(1, 1, 2, 2), (500, 10_000, 2_500)])
def test_queues_get_what_their_weights_say_within_5_percent(weights):
    named = {f"q{number}": weight for number, weight in enumerate(weights)}
    got = Counter(ring(**named).placed(KEYS))
    for name, weight in named.items():
        assert got[name] == pytest.approx(len(KEYS) * weight / sum(weights), rel=0.05)


def test_ten_equal_queues_get_the_same_within_5_percent():
    assert set(Counter(equal(*TEN)).values()) <= set(range(9_500, 10_501))


def test_one_queue_gets_all_whatever_its_weight():
    assert set(ring(a=WEIGHT_LIMIT).placed(KEYS[:1000])) == {"a"}


def test_nothing_bound_routes_to_nothing():
    some = ring("a")
    assert some.routed("k") == ["a"]
    some.unbind("a")
    assert some.routed("k") == []


def test_ten_thousand_queues_of_the_highest_weight_cost_no_more_than_others():
    many = Ring()
    for number in range(10_000):
        many.bind(f"q{number}", WEIGHT_LIMIT)
    assert len(set(many.placed(KEYS[:20]))) > 15


# Moved keys


def test_a_tenth_queue_takes_a_tenth_of_the_keys_and_moves_no_other():
    changes = moved(equal(*TEN[:-1]), equal(*TEN))
    assert 0.08 * len(KEYS) < len(changes) < 0.12 * len(KEYS)
    assert {new for _, new in changes} == {TEN[-1]}
    assert set(Counter(old for old, _ in changes)) == set(TEN[:-1])


@pytest.mark.parametrize("removed", TEN)
def test_a_queue_that_goes_moves_its_own_keys_alone(removed):
    some = ring(*TEN)
    before = some.placed()
    some.unbind(removed)
    changes = moved(before, some.placed())
    assert len(changes) == before.count(removed) and {old for old, _ in changes} == {removed}
    assert len({new for _, new in changes}) == len(TEN) - 1
    some.bind(removed)
    assert some.placed() == before


def test_a_fifth_queue_moves_a_fifth_and_its_end_restores_the_old_map():
    some = ring("a", "b", "c", "d")
    before = some.placed()
    some.bind("e")
    assert 0.18 * len(SOME) < len(moved(before, some.placed())) < 0.22 * len(SOME)
    some.unbind("e")
    assert some.placed() == before


def test_the_order_of_bindings_makes_no_difference():
    names = list(TEN)
    random.Random(5).shuffle(names)
    assert ring(*names).placed() == equal(*TEN)[:5000]


def test_a_place_is_the_same_on_every_machine_and_with_every_python():
    some = ring("a", "b", c=2, d=10, ä=3)
    assert "".join(some.placed(KEYS[:60])) == "dadcäcääädddäadcdbddddäcääbddädadddcdddaddbdbäddddädddcddddd"


@pytest.mark.parametrize("queues", [300, 900])
@pytest.mark.parametrize("weights", [1, 300])
def test_bindings_may_change_between_two_steps_of_a_search(queues, weights):
    made = Ring()
    for number in range(queues):
        made.bind(f"q{number}", number % weights + 1)
    found: dict[Destination, None] = {}
    steps = made.exchange.search(("k",), MESSAGE, found)
    next(steps)
    for number in range(queues):
        made.unbind(f"q{number}", number % weights + 1)
    made.bind("new", 500)
    list(steps)
    assert len(found) == 1
    assert made.routed("k") == ["new"]


def test_an_exchange_and_a_queue_of_one_name_are_two_destinations():
    class Other(Destination):
        kind = "exchange"

    some = ring("a")
    some.exchange.on_bind(Binding("x", other := Other("a"), "1", Table.EMPTY))
    got = [some.exchange.route((key,), MESSAGE)[0] for key in KEYS[:1000]]
    assert 400 < sum(destination is other for destination in got) < 600


# Several bindings of one queue


def test_a_second_binding_of_a_queue_does_not_change_the_shares():
    some = ring("a", "b")
    before = some.placed()
    some.bind("a", 9)
    some.bind("b", 10_000)
    assert some.placed() == before
    some.unbind("a", 9)
    assert some.placed() == before


def test_when_the_first_binding_of_a_queue_goes_the_next_oldest_is_its_weight():
    some = ring("a", "b")
    some.bind("a", 3)
    some.bind("a", 9)
    some.unbind("a", 1)
    assert some.placed() == ring(a=3, b=1).placed()
    some.unbind("a", 3)
    assert some.placed() == ring(a=9, b=1).placed()
    some.unbind("a", 9)
    assert set(some.placed()) == {"b"}


# Hashed values


def spread(some: Ring, messages: list[Message]) -> list[list[str]]:
    for name in TEN:
        some.bind(name)
    return [some.routed("same", message=message) for message in messages]


@pytest.mark.parametrize("argument", ["hash_header", "x_hash_on"])
def test_a_header_is_hashed_in_place_of_the_key(argument):
    messages = [message(headers=Table.of({"other": 1, "id": f"i{number % 50}"})) for number in range(100)]
    some = Ring(**{argument: "id"})
    found = spread(some, messages)
    assert found[:50] == found[50:] and len({names[0] for names in found}) == len(TEN)
    assert some.routed("another", message=messages[0]) == found[0]


VALUES = [
    *("text", "", b"\xff\x00", ("x", b"octets"), True, False, None, 7, -7, ("l", 1 << 60)),
    *(1.5, ("f", 1.5), ("D", (2, 314)), ("T", 1_700_000_000), [1, "a", [None]], {"a": {"b": 1}}),
]  # fmt: skip


def test_a_header_may_be_of_any_type():
    found = spread(Ring(hash_header="id"), [message(headers=Table.of({"id": value})) for value in VALUES])
    assert {len(names) for names in found} == {1} and len({names[0] for names in found}) > 3


def test_an_integer_is_the_same_in_any_width():
    some = Ring(hash_header="id")
    for number in range(100):
        found = spread(some, [message(headers=Table.of({"id": (letter, number)})) for letter in "bBsuIilL"])
        assert all(names == found[0] for names in found)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("message_id", [f"m{number}" for number in range(100)]),
        ("correlation_id", [f"c{number}" for number in range(100)]),
        ("timestamp", list(range(1_700_000_000, 1_700_000_100))),
    ],
)
def test_a_property_is_hashed_in_place_of_the_key(name, values):
    some = Ring(hash_property=name)
    found = spread(some, [message(**{name: value}) for value in values])
    assert len({names[0] for names in found}) == len(TEN)
    same = message(**{name: values[7]}, app_id="other", headers=Table.of({"id": 1}))
    assert some.routed("another", message=same) == found[7]


def test_a_timestamp_is_hashed_as_its_seconds_in_digits():
    by_property, by_key = Ring(hash_property="timestamp"), ring(*TEN)
    found = spread(by_property, [message(timestamp=number) for number in range(100)])
    assert found == [by_key.routed(str(number)) for number in range(100)]


@pytest.mark.parametrize("arguments", [{"hash_header": "id"}, {"hash_property": "message_id"}])
def test_messages_without_it_all_go_one_way(arguments):
    some = Ring(**arguments)
    without = [message(), message(headers=Table.EMPTY), message(headers=Table.of({"other": 1}), correlation_id="c")]
    found = spread(some, without)
    assert found[0] and all(names == found[0] for names in found)
    assert some.routed("another key") == found[0]


def test_the_copies_of_cc_and_bcc_do_not_count():
    some = ring(*TEN)
    assert all(some.routed(key, "cc", "bcc") == some.routed(key) for key in KEYS[:100])


def test_keys_that_are_not_text_are_hashed_as_their_bytes():
    some = ring(*TEN)
    keys = [bytes((0xFF, byte)).decode("utf-8", "surrogateescape") for byte in range(0x80, 0x100)]
    assert len(set(some.placed(keys))) == len(TEN)


# Refused arguments


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", 'The binding key must be an integer: <<"">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1.0", 'The binding key must be an integer: <<"1.0">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("1\n", "The binding key must be an integer: <<49,10>>"),
        ("٣", "The binding key must be an integer: <<217,163>>"),  # a digit, but none of ASCII
        ("\udcff", "The binding key must be an integer: <<255>>"),
        ("0", "The binding key must be greater than 0"),
        ("-0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
        ("9" * 255, "The binding key must not exceed 10000"),
    ],
)
def test_a_key_that_is_no_weight_is_refused(key, text):
    with pytest.raises(PreconditionFailed) as caught:
        Ring().bind("a", key)
    assert caught.value.text == text


@pytest.mark.parametrize("key", ["1", "007", "+5", "10000"])
def test_weights_are_decimal_integers_up_to_ten_thousand(key):
    some = ring("b")
    some.bind("a", key)
    expected = ring("b", a=int(key))
    assert some.placed(KEYS[:1000]) == expected.placed(KEYS[:1000])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash_header": "id", "hash_property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"x_hash_on": "id", "hash_property": "timestamp"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash_property": "app_id"}, "Unsupported property: app_id"),
        ({"hash_property": ""}, "Unsupported property: "),
        ({"hash_property": "Message_ID"}, "Unsupported property: Message_ID"),
        ({"hash_property": 5}, "Unsupported property: 5"),
        ({"hash_property": None}, "Unsupported property: undefined"),
        ({"hash_header": 5}, "invalid type 'signedint' for arg 'hash-header'"),
        ({"hash_header": True}, "invalid type 'bool' for arg 'hash-header'"),
        ({"hash_header": None}, "invalid type 'void' for arg 'hash-header'"),
        ({"x_hash_on": ["id"]}, "invalid type 'array' for arg 'x-hash-on'"),
        ({"hash_header": ("x", b"id")}, "invalid type 'binary' for arg 'hash-header'"),
        ({"hash_header": ""}, "invalid value for arg 'hash-header': a header's name has 1 to 255 bytes"),
        ({"hash_header": "n" * 256}, "invalid value for arg 'hash-header': a header's name has 1 to 255 bytes"),
        ({"x_algorithm": "maglev"}, "Unsupported algorithm: maglev"),
        ({"x_algorithm": 1}, "Unsupported algorithm: 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, text):
    with pytest.raises(PreconditionFailed) as caught:
        Ring(**arguments)
    assert caught.value.text == text


@pytest.mark.parametrize("algorithm", ["ring", "jump", "Jump"])
def test_the_algorithms_of_lavinmq_are_taken_and_place_alike(algorithm):
    some = Ring(x_algorithm=algorithm)
    for name in TEN:
        some.bind(name)
    assert some.placed(KEYS[:1000]) == equal(*TEN)[:1000]


# In a virtual host


@pytest.fixture
def vhost() -> VHost:
    node = new_node()
    node.registry.register("x-consistent-hash", ConsistentHashExchange)
    return node.vhosts["/"]


@pytest.mark.parametrize(("arguments", "remembered"), [({}, True), ({"hash-header": "id"}, False)])
def test_a_route_may_be_remembered_where_the_key_alone_decides(vhost, arguments, remembered):
    exchange = vhost.declare_exchange("x", "x-consistent-hash", arguments=Table.of(arguments))
    vhost.bind("x", vhost.declare_queue("q"), "1", Table.EMPTY)
    assert routed(vhost, exchange, ("k",), None).stable is remembered
    assert [queue.name for queue in routed(vhost, exchange, ("k",), MESSAGE).targets] == ["q"]


def test_the_end_of_a_queue_leaves_the_others_their_keys(vhost):
    exchange = vhost.declare_exchange("x", "x-consistent-hash")
    for name in TEN:
        queue = vhost.declare_queue(name)
        for weight in ("1", "2"):
            vhost.bind("x", queue, weight, Table.EMPTY)
    before = [routed(vhost, exchange, (key,), MESSAGE).targets[0].name for key in KEYS[:1000]]
    vhost.delete_queue(vhost.queues["q4"])
    after = [routed(vhost, exchange, (key,), MESSAGE).targets[0].name for key in KEYS[:1000]]
    assert {old for old, _ in moved(before, after)} == {"q4"} and "q4" not in after
