"""Changes of policies beside so many queues that they are applied in several turns."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest import MonkeyPatch

from tests.support.clock import FakeClock
from warren.broker.core.access.users import Users
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.node.node import Node
from warren.broker.core.policies.policies import Policies

QUEUES = 6_000
NO_LIMIT = -1


@pytest.fixture
def node() -> Node:
    made = Node("n", "n", FakeClock(), Journal(), Users(frozenset()))
    vhost = made.add_vhost("/")
    for number in range(QUEUES):
        vhost.declare_queue(f"q{number}")
    made.scheduler.finish_all()
    return made


@pytest.fixture
def policies(node: Node) -> Policies:
    return node.policies


def limits(node: Node) -> set[object]:
    """The length limits of all queues once all jobs have come to their end."""
    assert node.scheduler.finish_all()
    return {queue.settings.max_length for queue in node.vhosts["/"].queues.values()}


def set_limit(policies: Policies, name: str, limit: int, pattern: str = "", operator: bool = False) -> None:
    policies.set("/", name, pattern or ".*", {"max-length": limit}, operator=operator)


@pytest.mark.parametrize("operator", [False, True])
def test_the_last_of_many_changes_applies_to_all_queues_and_all_take_one_job(
    node: Node, policies: Policies, monkeypatch: MonkeyPatch, operator: bool
) -> None:
    looks = 0
    apply = policies._apply_change

    def counted(*arguments: Any) -> int:
        nonlocal looks
        looks += 1
        return apply(*arguments)

    monkeypatch.setattr(policies, "_apply_change", counted)
    for limit in range(1, 100):
        set_limit(policies, "p", limit, operator=operator)
        assert len(node.scheduler) == 1
    assert limits(node) == {99}
    assert looks < 3 * QUEUES


def test_policies_that_are_set_and_cleared_while_others_are_applied(node: Node, policies: Policies) -> None:
    set_limit(policies, "first", 1)
    set_limit(policies, "second", 2, "[0-4]$")
    policies.set("/", "third", "[5-9]$", {"max-length": 3}, priority=1)
    assert len(node.scheduler) == 1
    policies.clear("/", "first")
    assert limits(node) == {2, 3}
    policies.clear("/", "third")
    policies.clear("/", "second")
    set_limit(policies, "last", 4, "0$")
    assert limits(node) == {NO_LIMIT, 4}


def test_a_queue_that_is_deleted_or_declared_meanwhile(node: Node, policies: Policies) -> None:
    vhost = node.vhosts["/"]
    set_limit(policies, "p", 1)
    set_limit(policies, "p", 2)
    vhost.delete_queue(vhost.queues["q1"])
    assert vhost.declare_queue("new").settings.max_length == 2
    set_limit(policies, "p", 3)
    assert limits(node) == {3} and "q1" not in vhost.queues


def test_changes_after_a_failed_one_are_applied(node: Node, policies: Policies, monkeypatch: MonkeyPatch) -> None:
    reports: list[str] = []
    node.scheduler.report = lambda event, level, fields: reports.append(event)

    def fail(*_: object) -> Iterator[int]:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(policies, "_apply_change", fail)
        set_limit(policies, "p", 1)
        node.scheduler.finish_all()
    assert reports == ["job_failed"]
    set_limit(policies, "p", 2)
    assert limits(node) == {2}
