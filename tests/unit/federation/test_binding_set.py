"""The bindings upstream of a federated exchange: equal ones once."""

import random

import pytest

from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.core.messages.binding import Binding, Destination
from warren.federation.binding_set import BINDING_COST, CHANGES_BYTES, STEP_COST, ExchangeBindings, UpstreamBinding

IN_A_STEP = STEP_COST // BINDING_COST  # bindings without arguments


class Queue(Destination):
    kind = "queue"


def binding(queue: str, key: str = "k", **arguments: object) -> Binding:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return Binding("x", Queue(queue), key, Table.of(named))


@pytest.fixture
def groups() -> ExchangeBindings:
    return ExchangeBindings(new_node(SlowJournal()).vhosts["/"].exchanges["amq.direct"])


def test_the_first_binding_of_a_group_is_made_upstream_and_the_last_removed(groups: ExchangeBindings) -> None:
    one, other = binding("q1"), binding("q2")
    assert groups.change(one, True)
    assert not groups.change(other, True)
    assert groups.all() == [UpstreamBinding("k", Table.EMPTY)]
    assert not groups.change(one, False)
    assert groups.change(other, False)
    assert groups.all() == []


def test_other_arguments_are_another_group_in_whatever_order_they_stand(groups: ExchangeBindings) -> None:
    assert groups.change(binding("q1", a="1", b="2"), True)
    assert not groups.change(binding("q2", b="2", a="1"), True)
    assert groups.change(binding("q1", a="1"), True)
    assert groups.change(binding("q1", a=1), True), "of another type"
    assert len(groups) == len(groups.all()) == 3


def test_what_was_told_twice_counts_once(groups: ExchangeBindings) -> None:
    assert [groups.change(binding("q"), bound) for bound in (True, True, False, False)] == [True, False, True, False]
    assert not groups.change(binding("never", "there"), False)


def test_bindings_of_other_downstreams_are_each_by_themselves(groups: ExchangeBindings) -> None:
    def bound_from(exchange: str) -> list[object]:
        return [{"cluster-name": "c", "vhost": "/", "exchange": exchange, "hops": ("s", 1)}]

    first, second = (binding(end, x_bound_from=bound_from(end)) for end in ("/:x A", "/:x B"))
    assert groups.change(first, True) and groups.change(second, True)
    assert groups.change(first, False)
    assert len(groups) == 1


def test_a_storm_leaves_what_is_bound(groups: ExchangeBindings) -> None:
    dice = random.Random(7)
    bound: set[tuple[str, str]] = set()
    upstream: set[str] = set()
    for _ in range(2000):
        queue, key, binds = f"q{dice.randrange(4)}", f"k{dice.randrange(20)}", dice.random() < 0.5
        (bound.add if binds else bound.discard)((queue, key))
        if groups.change(binding(queue, key), binds):
            upstream ^= {key}
        assert upstream == {key for _, key in bound} == {group.routing_key for group in groups.all()}


def test_each_change_is_read_once_however_often_a_binding_changed(groups: ExchangeBindings) -> None:
    for key in "abc":
        groups.change(binding("q", key), True)
    before = groups.number
    for key, bound in (("a", False), ("d", True), ("b", False), ("a", True)):
        groups.change(binding("q", key), bound)
    assert [one.routing_key for one in groups.changed_since(before) or ()] == ["d", "b", "a"]
    assert groups.changed_since(groups.number) == []


def test_links_are_notified_again_once_one_has_read_a_change(groups: ExchangeBindings) -> None:
    groups.change(binding("q"), True)
    groups.announced = True
    groups.changed_since(0)
    assert not groups.announced


def test_changes_are_kept_up_to_some_bytes(groups: ExchangeBindings) -> None:
    large = "x" * 10_000
    count = CHANGES_BYTES // len(large) + 1
    for number in range(count):
        for bound in (True, False):
            groups.change(binding("q", str(number), a=large), bound)
    assert groups.changed_since(0) is None and groups.changed_since(2) is None
    assert len(groups.changed_since(groups.number - 20) or ()) == 10
    assert groups._changed_bytes <= CHANGES_BYTES


def test_a_binding_that_ends_while_those_of_its_exchange_are_read_is_not_added() -> None:
    vhost = new_node(SlowJournal()).vhosts["/"]
    queue = vhost.declare_queue("q")
    bindings = ExchangeBindings(vhost.declare_exchange("x", "direct"))
    for number in range(2 * IN_A_STEP):
        vhost.bind("x", queue, str(number), Table.EMPTY)
    steps = bindings.read()
    next(steps)
    for key, bound in (("0", False), (str(IN_A_STEP), False), ("new", True)):
        (vhost.bind if bound else vhost.unbind)("x", queue, key, Table.EMPTY)
        bindings.change(Binding("x", queue, key, Table.EMPTY), bound)
    for _ in steps:
        pass
    left = {one.routing_key for one in bindings.all()}
    assert left == {binding.routing_key for binding in bindings.exchange.outgoing.values()}
