"""The bindings upstream of a federated exchange: equal ones once."""

import random

import pytest

from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.core.messages.binding import Binding, Destination
from warren.federation.binding_set import (
    BINDING_COST,
    CHANGES_BYTES,
    STEP_COST,
    BindingSet,
    ExchangeBindings,
    UpstreamBinding,
)

IN_A_STEP = STEP_COST // BINDING_COST  # bindings without arguments


class Queue(Destination):
    kind = "queue"


def binding(queue: str, key: str = "k", **arguments: object) -> Binding:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return Binding("x", Queue(queue), key, Table.of(named))


@pytest.fixture
def groups() -> BindingSet:
    return BindingSet()


def test_the_first_binding_of_a_group_is_made_upstream_and_the_last_removed(groups: BindingSet) -> None:
    one, other = binding("q1"), binding("q2")
    assert groups.add(one) == UpstreamBinding("k", Table.EMPTY)
    assert groups.add(other) is None
    assert groups.remove(one) is None
    assert groups.remove(other) == UpstreamBinding("k", Table.EMPTY)
    assert groups.all() == []


def test_other_arguments_are_another_group_in_whatever_order_they_stand(groups: BindingSet) -> None:
    assert groups.add(binding("q1", a="1", b="2")) is not None
    assert groups.add(binding("q2", b="2", a="1")) is None
    assert groups.add(binding("q1", a="1")) is not None
    assert groups.add(binding("q1", a=1)) is not None, "of another type"
    assert len(groups) == len(groups.all()) == 3


def test_what_was_told_twice_counts_once(groups: BindingSet) -> None:
    assert groups.add(binding("q")) is not None
    assert groups.add(binding("q")) is None
    assert groups.remove(binding("q")) is not None
    assert groups.remove(binding("q")) is None
    assert groups.remove(binding("never", "there")) is None


def test_bindings_of_other_downstreams_are_each_by_themselves(groups: BindingSet) -> None:
    def bound_from(exchange: str) -> list[object]:
        return [{"cluster-name": "c", "vhost": "/", "exchange": exchange, "hops": ("s", 1)}]

    first, second = (binding(end, x_bound_from=bound_from(end)) for end in ("/:x A", "/:x B"))
    assert groups.add(first) is not None
    assert groups.add(second) is not None
    assert groups.remove(first) is not None
    assert len(groups) == 1


def test_a_storm_leaves_what_is_bound(groups: BindingSet) -> None:
    dice = random.Random(7)
    bound: set[tuple[str, str]] = set()
    upstream: set[str] = set()
    for _ in range(2000):
        queue, key = f"q{dice.randrange(4)}", f"k{dice.randrange(20)}"
        if dice.random() < 0.5:
            bound.add((queue, key))
            new = groups.add(binding(queue, key))
            upstream |= {new.routing_key} if new is not None else set()
        else:
            bound.discard((queue, key))
            old = groups.remove(binding(queue, key))
            upstream -= {old.routing_key} if old is not None else set()
        assert upstream == {key for _, key in bound} == {group.routing_key for group in groups.all()}


def test_each_change_is_read_once_however_often_a_binding_changed(groups: BindingSet) -> None:
    for key in "abc":
        groups.add(binding("q", key))
    before = groups.number
    groups.remove(binding("q", "a"))
    groups.add(binding("q", "d"))
    groups.remove(binding("q", "b"))
    groups.add(binding("q", "a"))
    assert [one.routing_key for one in groups.changed_since(before) or ()] == ["d", "b", "a"]
    assert groups.changed_since(groups.number) == []


def test_changes_are_kept_up_to_some_bytes(groups: BindingSet) -> None:
    large = "x" * 10_000
    count = CHANGES_BYTES // len(large) + 1
    for number in range(count):
        groups.add(binding("q", str(number), a=large))
        groups.remove(binding("q", str(number), a=large))
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
