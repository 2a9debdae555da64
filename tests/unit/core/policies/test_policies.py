"""Policies: which apply to an object, their changes, and their validation."""

from typing import Any

import pytest

from tests.support.queues import routed
from tests.support.recording_observer import RecordingObserver
from warren.broker.amqp.errors import Invalid, PreconditionFailed, Unknown
from warren.broker.amqp.field_table import Table
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.exchanges.route_cache import RouteCache
from warren.broker.core.exchanges.router import Route
from warren.broker.core.messages.message import ByteCount, RoutingAddress
from warren.broker.core.node.node import Node
from warren.broker.core.policies.policies import Policies
from warren.broker.core.policies.policy_keys import KEYS, OPERATOR_KEYS, definition_lines, merge_definitions
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.vhost import VHost

LENGTH = {"max-length": 5}


@pytest.fixture
def policies(node: Node) -> Policies:
    return node.policies


def queue(vhost: VHost, name: str, **arguments: Any) -> Queue:
    given = Table.of({key.replace("_", "-"): value for key, value in arguments.items()})
    return vhost.declare_queue(name, durable=True, arguments=given)


def exchange(vhost: VHost, name: str) -> Exchange:
    return vhost.declare_exchange(name, "fanout")


def name_of(target: Queue | Exchange) -> str | None:
    return target.policy.name if target.policy is not None else None


# Which policy applies


def test_a_policy_applies_to_existing_and_new_objects(vhost: VHost, policies: Policies) -> None:
    before = queue(vhost, "some.before")
    assert policies.set("/", "p", "^some", LENGTH)
    after, other = queue(vhost, "some.after"), queue(vhost, "other some")
    assert [name_of(each) for each in (before, after, other)] == ["p", "p", None]
    assert before.effective == after.effective == LENGTH and other.effective == {}
    assert before.settings.max_length == 5


def test_the_policy_of_lower_priority_applies_again_once_it_is_cleared(
    vhost: VHost, policies: Policies, watcher: RecordingObserver
) -> None:
    it = queue(vhost, "q")
    policies.set("/", "low", "^q", {"max-length": 1}, -1)
    policies.set("/", "high", "^q", {"max-length": 2}, 1)
    assert it.effective == {"max-length": 2}
    policies.clear("/", "high")
    assert it.effective == {"max-length": 1} and name_of(it) == "low"
    policies.clear("/", "low")
    assert it.policy is None and it.effective == {} and it.settings.max_length == -1
    assert watcher.take_targets() == ["q"] * 4


def test_of_equal_priorities_the_lower_name_wins_whatever_came_first(vhost: VHost, policies: Policies) -> None:
    it = queue(vhost, "q")
    for name in ("b", "a", "c"):
        policies.set("/", name, "q", LENGTH, 3)
    assert name_of(it) == "a" and name_of(queue(vhost, "q2")) == "a"
    policies.set("/", "c", "q", LENGTH, 4)
    assert name_of(it) == "c"


def test_only_one_policy_applies_and_policies_are_not_merged(vhost: VHost, policies: Policies) -> None:
    policies.set("/", "a", "q", {"max-length": 5}, 1)
    policies.set("/", "b", "q", {"message-ttl": 5}, 2)
    assert queue(vhost, "q").effective == {"message-ttl": 5}


def test_patterns_are_searched_for_and_an_empty_one_is_found_everywhere(vhost: VHost, policies: Policies) -> None:
    made = {name: queue(vhost, name) for name in ("a.b", "b", "xbx", "c", "émile")}
    for pattern, found in (("b", ["a.b", "b", "xbx"]), ("^b$", ["b"]), ("", sorted(made)), ("^.m", ["émile"])):
        policies.set("/", "p", pattern, LENGTH)
        assert sorted(name for name, each in made.items() if each.policy) == found


def test_a_policy_applies_in_one_vhost(node: Node, vhost: VHost, policies: Policies) -> None:
    other = node.add_vhost("other")
    policies.set("other", "p", ".*", LENGTH)
    assert queue(vhost, "q").policy is None and queue(other, "q").policy is not None


@pytest.mark.parametrize(
    ("apply_to", "expected"),
    [
        ("all", ["classic", "exchange", "quorum"]),
        ("queues", ["classic", "quorum"]),
        ("classic_queues", ["classic"]),
        ("quorum_queues", ["quorum"]),
        ("streams", []),
        ("exchanges", ["exchange"]),
    ],
)
def test_a_policy_applies_to_the_kinds_of_its_apply_to(
    vhost: VHost, policies: Policies, apply_to: str, expected: list[str]
) -> None:
    old: list[Queue | Exchange] = [queue(vhost, "x-classic"), queue(vhost, "x-quorum", x_queue_type="quorum")]
    old.append(exchange(vhost, "x-exchange"))
    policies.set("/", "p", "^x-", LENGTH, 0, apply_to)
    new: list[Queue | Exchange] = [queue(vhost, "x-new-classic"), queue(vhost, "x-new-quorum", x_queue_type="quorum")]
    new.append(exchange(vhost, "x-new-exchange"))
    assert sorted(each.name.removeprefix("x-") for each in old if each.policy) == expected
    assert sorted(each.name.removeprefix("x-new-") for each in new if each.policy) == expected


def test_a_policy_with_an_unsupported_key_does_not_apply_to_a_queue_type(vhost: VHost, policies: Policies) -> None:
    classic, quorum = queue(vhost, "classic"), queue(vhost, "quorum", x_queue_type="quorum")
    policies.set("/", "p", ".", {"delivery-limit": 3, "max-length": 5})
    assert classic.policy is None and quorum.settings.delivery_limit == 3
    policies.set("/", "p", ".", {"queue-mode": "lazy", "max-length": 5})
    assert quorum.policy is None and classic.settings.max_length == 5
    policies.set("/", "next", ".", {"max-length": 6}, -1)
    assert name_of(quorum) == "next" and name_of(classic) == "p"


def test_all_matching_policies_are_listed_best_first(vhost: VHost, policies: Policies) -> None:
    it = queue(vhost, "q")
    for name, priority in (("a", 0), ("b", 2), ("c", 1)):
        policies.set("/", name, "q" if name != "c" else "z", LENGTH, priority)
    assert [policy.name for policy in policies.matching(it)] == ["b", "a"]
    assert [policy.name for policy in policies.all("/")] == ["a", "c", "b"]
    got = policies.get("/", "b")
    assert got is not None and (got.pattern, got.priority, got.apply_to, got.vhost) == ("q", 2, "all", "/")


# Operators' policies


def test_an_operator_policy_holds_beside_a_policy(vhost: VHost, policies: Policies, watcher: RecordingObserver) -> None:
    it = queue(vhost, "q")
    policies.set("/", "limit", "^q", {"max-length": 3, "expires": 1000}, 0, "queues", True)
    assert it.effective == {"max-length": 3, "expires": 1000} and it.policy is None
    policies.set("/", "p", "^q", {"max-length": 9, "message-ttl": 7})
    assert it.effective == {"max-length": 3, "message-ttl": 7, "expires": 1000}
    assert it.operator_policy is not None and it.operator_policy.name == "limit" and name_of(it) == "p"
    policies.clear("/", "limit", True)
    assert it.effective == {"max-length": 9, "message-ttl": 7} and it.operator_policy is None
    assert watcher.take_targets() == ["q"] * 3
    with pytest.raises(Unknown):
        policies.clear("/", "p", True)


def test_the_two_kinds_do_not_know_each_others_names(vhost: VHost, policies: Policies) -> None:
    policies.set("/", "p", "q", {"max-length": 9})
    policies.set("/", "p", "q", {"max-length": 3}, 0, "all", True)
    assert [len(policies.all(operator=operator)) for operator in (False, True)] == [1, 1]
    policies.clear("/", "p")
    assert queue(vhost, "q").effective == {"max-length": 3}


@pytest.mark.parametrize(
    ("user", "operator", "both"),
    [
        ({"max-length": 3}, {"max-length": 5}, {"max-length": 3}),
        ({"message-ttl": 9}, {"message-ttl": 0}, {"message-ttl": 0}),
        ({"delivery-limit": 3}, {"delivery-limit": 5}, {"delivery-limit": 3}),
        ({"delivery-limit": -1}, {"delivery-limit": 5}, {"delivery-limit": 5}),
        ({"delivery-limit": 3}, {"delivery-limit": -1}, {"delivery-limit": 3}),
        ({"overflow": "drop-head"}, {"overflow": "reject-publish"}, {"overflow": "reject-publish"}),
        ({"queue-version": 1}, {"queue-version": 2}, {"queue-version": 2}),
        ({"queue-mode": "lazy"}, {"expires": 5}, {"queue-mode": "lazy", "expires": 5}),
    ],
)
def test_a_policy_and_an_operator_policy_are_merged(
    user: dict[str, object], operator: dict[str, object], both: dict[str, object]
) -> None:
    given = dict(user)
    assert merge_definitions(user, operator) == both and user == given


def test_an_operator_policy_may_be_set_as_a_parameter(node: Node, policies: Policies) -> None:
    value: dict[str, object] = {"pattern": "q", "definition": LENGTH, "priority": 4, "apply-to": "queues"}
    node.parameters.set("/", "operator_policy", "p", value)
    assert policies.all("/", True)[0].priority == 4
    with pytest.raises(Invalid) as raised:
        node.parameters.set("/", "operator_policy", "p", {"pattern": "q", "definition": LENGTH})
    assert raised.value.text == 'Validation failed\n\nKey "priority" not found in p\n'


# Changes


def test_only_changed_objects_are_reported(vhost: VHost, policies: Policies, watcher: RecordingObserver) -> None:
    for name in ("a1", "a2", "b"):
        queue(vhost, name)
    exchange(vhost, "a-exchange")
    policies.set("/", "p", "^a[-0-9]", LENGTH)
    assert watcher.take_targets() == ["a-exchange", "a1", "a2"] and watcher.take_changes() == ["+parameter / policy p"]
    policies.set("/", "p", "^a[-0-9]", LENGTH)
    assert watcher.take_targets() == [] == watcher.take_changes()
    policies.set("/", "lower", "^a[-0-9]", {"max-length": 1}, -1)
    assert watcher.take_targets() == []
    policies.set("/", "p", "^(a2|b)", LENGTH)
    assert watcher.take_targets() == ["a-exchange", "a1", "a2", "b"]
    policies.clear("/", "lower")
    assert watcher.take_targets() == ["a-exchange", "a1"]


def test_an_alternate_exchange_comes_and_goes_with_a_policy(vhost: VHost, policies: Policies) -> None:
    it, unrouted = exchange(vhost, "x"), queue(vhost, "unrouted")
    vhost.bind("amq.fanout", unrouted, "", Table.EMPTY)
    policies.set("/", "p", "^x$", {"alternate-exchange": "amq.fanout"})
    assert routed(vhost, it, ("k",), None).targets == (unrouted,)
    vhost.routes["user"] = RouteCache(ByteCount())
    vhost.routes["user"].remember(b"octets", Route(RoutingAddress("", ""), it, (), False, frozenset()))
    policies.clear("/", "p")
    assert routed(vhost, it, ("k",), None).targets == () and not vhost.routes["user"]


def test_predeclared_exchanges_have_policies_too(vhost: VHost, policies: Policies) -> None:
    policies.set("/", "p", ".*", {"federation-upstream-set": "all"}, 0, "exchanges")
    assert all(name_of(each) == "p" for each in vhost.exchanges.values())


# Definitions

WRONG: list[tuple[dict[str, object], str]] = [
    ({"max-length": -1}, "-1 is not a valid maximum length"),
    ({"max-length": "x"}, '<<"x">> is not a valid maximum length'),
    ({"max-length": 1.5}, "1.5 is not a valid maximum length"),
    ({"max-length": True}, "true is not a valid maximum length"),
    ({"max-length": 10**30}, f"{10**30} is not a valid maximum length"),
    ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
    ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
    ({"message-ttl": -1}, "-1 is not a valid message TTL"),
    ({"expires": 0}, "0 is not a valid queue expiry"),
    ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
    ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
    ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
    ({"dead-letter-routing-key": "k" * 256}, f'<<"{"k" * 256}">> is not a valid dead letter routing key'),
    ({"dead-letter-exchange": "\ud800"}, "<<237,160,128>> is not a valid dead letter exchange name"),
    ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
    ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
    ({"overflow": []}, "[] is not a valid overflow value"),
    ({"delivery-limit": "x"}, '<<"x">> is not a valid delivery limit'),
    ({"queue-mode": 1}, "1 is not a valid queue-mode value"),
    ({"queue-version": 3}, "3 is not a valid queue-version value"),
    ({"queue-version": True}, "true is not a valid queue-version value"),
    ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
    ({"max-age": "x"}, '<<"x">> is not a valid max age'),
    ({"stream-max-segment-size-bytes": 9999999999}, "9999999999 is not a valid segment size"),
    ({"stream-filter-size-bytes": 15}, "15 is not a valid filter size. Valid range is 16-255"),
    ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
    ({"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
    ({"max-length": -1, "expires": 0}, "0 is not a valid queue expiry"),
    ({"max-length": -1, "foo": 1}, "-1 is not a valid maximum length"),
    ({"foo": 1, "bar": "x"}, '[{<<"bar">>,<<"x">>},{<<"foo">>,1}] are not recognised policy settings'),
    ({"foo": {"a": 1}}, '[{<<"foo">>,#{<<"a">> => 1}}] are not recognised policy settings'),
    ({}, "no policy provided"),
    ({"federation-upstream-pattern": "("}, '<<"(">> is not a valid federation upstream pattern'),
    ({"federation-upstream-pattern": "x" * 1025}, f'<<"{"x" * 1025}">> is not a valid federation upstream pattern'),
    ({"routing-key": 7}, "shards-per-node must be specified"),
    ({"shards-per-node": "two"}, 'shards-per-node should be a number, actually was <<"two">>'),
    ({"shards-per-node": True}, "shards-per-node should be a number, actually was true"),
    ({"shards-per-node": -1, "max-length": "x"}, "shards-per-node should be greater than 0, actually was -1"),
    ({"shards-per-node": 1.5}, "shards-per-node should be a whole number of at most 1,000, actually was 1.5"),
    ({"shards-per-node": 1001}, "shards-per-node should be a whole number of at most 1,000, actually was 1001"),
    ({"shards-per-node": 1, "routing-key": 7}, "routing-key should be binary, actually was 7"),
    ({"shards-per-node": 1, "routing-key": "x" * 256}, f'routing-key should be binary, actually was <<"{"x" * 256}">>'),
    (
        {"federation-upstream": "a", "federation-upstream-set": "b"},
        "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together",
    ),
]


@pytest.mark.parametrize(("definition", "line"), WRONG)
def test_a_definition_that_is_wrong_is_refused_with_the_reason(
    policies: Policies, definition: dict[str, object], line: str
) -> None:
    with pytest.raises(Invalid) as raised:
        policies.set("/", "p", "x", definition)
    assert raised.value.text == f"Validation failed\n\n{line}\n" and not policies.all()


@pytest.mark.parametrize(
    "definition",
    [
        {"delivery-limit": -1},
        {"dead-letter-exchange": "", "dead-letter-routing-key": "k"},
        {"message-ttl": 0, "expires": 1, "max-length": 0, "max-length-bytes": 0},
        {"max-age": "7D", "stream-filter-size-bytes": 255},
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
        {"federation-upstream-pattern": "^up", "max-length": 4},
        {"shards-per-node": 0},
        {"shards-per-node": 1000, "routing-key": "", "max-length": 1},
    ],
)
def test_valid_definitions_are_accepted(policies: Policies, definition: dict[str, object]) -> None:
    assert policies.set("/", "p", "x", definition) and policies.all()[0].definition == definition


def test_operator_policies_accept_fewer_keys() -> None:
    assert set(KEYS) >= OPERATOR_KEYS and len(OPERATOR_KEYS) == 10
    for key in ("alternate-exchange", "federation-upstream", "dead-letter-exchange", "shards-per-node"):
        assert definition_lines({key: "x"}, True) == [f'[{{<<"{key}">>,<<"x">>}}] are not recognised policy settings']
    assert not definition_lines({"overflow": "drop-head", "expires": 5}, True)


def test_queues_with_the_same_arguments_and_policies_share_their_rules(vhost: VHost, policies: Policies) -> None:
    one, other, another = queue(vhost, "one"), queue(vhost, "other"), queue(vhost, "another", x_max_length=3)
    assert one.settings is other.settings is not another.settings
    policies.set("/", "p", "", LENGTH)
    assert one.settings is other.settings and (one.settings.max_length, another.settings.max_length) == (5, 3)
    policies.set("/", "o", "", {"max-length": 4}, operator=True)
    assert one.settings is other.settings and (one.settings.max_length, another.settings.max_length) == (4, 3)
    policies.set("/", "o", "", {"max-length": 2}, operator=True)
    assert one.settings is other.settings and (one.settings.max_length, another.settings.max_length) == (2, 2)
    policies.clear("/", "o", operator=True)
    policies.clear("/", "p")
    assert one.settings is other.settings and (one.settings.max_length, another.settings.max_length) == (-1, 3)


def test_each_field_of_a_policy_is_validated(policies: Policies) -> None:
    names = "'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'"
    for given, line in (
        (("(", LENGTH, 0, "all"), "pattern should be regular expression but is invalid: "),
        (("x" * 20_000, LENGTH, 0, "all"), "pattern should be regular expression but is invalid: "),
        (("x", LENGTH, "7", "all"), 'priority should be a number, actually was <<"7">>\n'),
        (("x", LENGTH, 1.5, "all"), "priority should be a number, actually was 1.5\n"),
        (("x", LENGTH, 0, "foo"), f"apply-to 'foo' unrecognised; should be one of: {names}\n"),
        (("x", 5, 0, "all"), "definition should be a map, actually was 5\n"),
    ):
        with pytest.raises(Invalid) as raised:
            policies.set("/", "p", *given)  # type: ignore[arg-type]
        assert raised.value.text.startswith(f"Validation failed\n\n{line}")
    with pytest.raises(Unknown):
        policies.set("none", "p", "x", LENGTH)
    with pytest.raises(Unknown) as missing:
        policies.clear("/", "p")
    assert missing.value.text == "Parameter does not exist"


def test_a_pattern_that_takes_for_ever_is_given_up(vhost: VHost, policies: Policies) -> None:
    policies.set("/", "p", "^(a|aa)+$", LENGTH)
    assert queue(vhost, "a" * 200 + "!").policy is None


SLOW, SLOW_NAME = "^((a|aa|b?)+)+$", "a" * 250 + "!"


def test_a_queue_whose_name_an_operator_policy_cannot_search_is_refused(vhost: VHost, policies: Policies) -> None:
    policies.set("/", "limit", SLOW, LENGTH, operator=True)
    for _ in range(2):
        with pytest.raises(PreconditionFailed, match="pattern of operator policy 'limit' takes too long"):
            queue(vhost, SLOW_NAME)
    assert not vhost.queues
    assert queue(vhost, "aab").effective == LENGTH and queue(vhost, "!").effective == {}


def test_an_operator_policy_holds_for_a_queue_that_was_there_and_whose_name_it_cannot_search(
    vhost: VHost, policies: Policies
) -> None:
    it, other = queue(vhost, SLOW_NAME), queue(vhost, "!")
    policies.set("/", "limit", SLOW, LENGTH, operator=True)
    policies.set("/", "mine", SLOW, LENGTH)
    assert it.effective == LENGTH and it.operator_policy is not None and it.policy is None
    assert other.operator_policy is None
