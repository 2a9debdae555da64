"""No import of definitions holds the loop, nor does the collector in the middle of it."""

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.definitions import new_node
from tests.support.http import Api, request
from tests.support.speed import within
from warren.broker.amqp.errors import Invalid
from warren.broker.core.definitions.entry import FRACTION_BYTES, VALUES_LIMIT
from warren.broker.core.definitions.importer import DefinitionsImport, VHostPreview, import_definitions
from warren.broker.core.definitions.release import release
from warren.broker.core.metadata import patterns
from warren.broker.core.node.node import Node
from warren.broker.core.policies.policies import POLICIES_LIMIT

from .meter import LIMIT_MS, MANY, SLICE_MS, TURN_MS, Meter, attempts_within

QUEUES = MANY // 5  # each with a binding


def document(*more: str) -> bytes:
    names = [f"q{number}" for number in range(QUEUES)]
    place = {"vhost": "/", "arguments": {}}
    queues = [place | {"name": name, "durable": False, "auto_delete": False} for name in names]
    end = place | {"source": "amq.topic", "destination_type": "queue", "routing_key": "k"}
    return json.dumps(
        {"queues": queues, "bindings": [end | {"destination": name} for name in (*names, *more)]}
    ).encode()


def imported_ms(api: Api, path: str, body: bytes, status: int) -> float:
    """Return the longest turn of an import."""
    meter = Meter()
    response = meter.run(request(api.application, "POST", path, body))
    assert response.status == status
    meter.close()
    return meter.longest_s * 1000


@pytest.mark.parametrize(("more", "status"), [((), 204), (("missing",), 400)])
def test_an_import_of_many_queues_and_bindings_is_made_or_refused_in_short_turns(
    more: tuple[str, ...], status: int
) -> None:
    body = document(*more)
    for took_ms in attempts_within(LIMIT_MS):
        api = Api()
        took_ms.append(imported_ms(api, "/definitions", body, status))
        assert len(api.peer.node.vhosts["/"].queues) == (0 if more else QUEUES)
        api.close()


def test_what_an_import_leaves_out_is_logged_in_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"queues": [{}] * MANY}).encode()
    for took_ms in attempts_within(LIMIT_MS):
        api = Api()
        monkeypatch.setattr(api.host, "report", lambda *line: sum(range(500)))  # about as long as a line of the log
        took_ms.append(imported_ms(api, "/definitions?leave-out=true", body, 204))
        api.close()


def longest_ms(steps: Iterable[object]) -> float:
    longest_s, begun_s = 0.0, time.thread_time()
    for _ in steps:
        now_s = time.thread_time()
        longest_s, begun_s = max(longest_s, now_s - begun_s), now_s
    return max(longest_s, time.thread_time() - begun_s) * 1000


@pytest.mark.parametrize("version", ["." * (18 << 20), "1" * 5_000])
def test_a_version_of_any_length_is_read_in_a_short_step(version: str) -> None:
    node, document = new_node(), {"rabbitmq_version": version}
    begun_s = time.thread_time()
    DefinitionsImport(node, document)
    assert within((time.thread_time() - begun_s) * 1000, SLICE_MS)


def test_a_plan_of_very_many_virtual_hosts_is_made_and_freed_in_short_steps() -> None:
    """Most of its containers are empty, and yet each one takes time."""
    for took_ms in attempts_within(SLICE_MS):
        plan = DefinitionsImport(new_node(), {"vhosts": [{"name": f"v{number}"} for number in range(MANY)]})
        took_ms.append(max(longest_ms(plan.check()), longest_ms(plan.release())))


def test_the_limits_of_virtual_hosts_are_checked_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[VHostPreview] = []
    monkeypatch.setattr(VHostPreview, "check_queues", lambda vhost: checked.append(vhost))
    plan = DefinitionsImport(new_node(), {"vhosts": [{"name": f"v{number}"} for number in range(10)]})
    assert [len(checked) for _ in plan.check()] == [0] * 10 + list(range(1, 11))


def test_no_step_of_an_import_compiles_two_long_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_pattern = patterns.compile_pattern

    def counted(text: str, *more: Any) -> Any:
        compiled.append(text)
        return compile_pattern(text, *more)

    monkeypatch.setattr(patterns, "compile_pattern", counted)
    given = {key: f"^({key}{'|x' * 300})" for key in ("configure", "write", "read")}
    place = {"user": "u", "vhost": "v"}
    document = {
        "permissions": [{**place, **given}],
        "topic_permissions": [{**place, **given, "write": "^{username}" + given["write"], "exchange": "x"}],
    }
    node = new_node()
    node.add_vhost("v")
    node.users.add("u")
    plan = DefinitionsImport(node, document)
    for work in (plan.check(), plan.carry_out()):
        patterns._last.clear()
        compiled.clear()
        for _ in work:
            assert len(compiled) <= 1
            compiled.clear()
    user = node.users.find("u")
    assert user.permissions["v"].allows("read", "readx") and user.topic_permissions["v"]["x"].allows("read", "readx")


def vhosts(node: Node, count: int) -> list[str]:
    """Add so many virtual hosts, and return their names."""
    return [node.add_vhost(f"v{number}").name for number in range(count)]


def test_the_check_of_a_policy_takes_no_longer_behind_very_many_others() -> None:
    node, policy = new_node(), {"pattern": "^a", "definition": {"max-length": 1}}
    places = vhosts(node, MANY // POLICIES_LIMIT)
    policies = [policy | {"name": f"p{number}", "vhost": vhost} for vhost in places for number in range(POLICIES_LIMIT)]
    plan = DefinitionsImport(node, {"policies": policies})
    begun_s = time.thread_time()
    assert sum(1 for _ in plan.check()) == MANY + len(places)
    assert within(time.thread_time() - begun_s, 0.8)


def test_very_many_policies_beside_others_are_imported_in_time_in_proportion_to_their_number() -> None:
    node = new_node()
    places, count = vhosts(node, MANY // POLICIES_LIMIT // 2), POLICIES_LIMIT // 2
    node.parameters.limits["policy"] = 4 * MANY
    for part in ("a", "b"):
        policy = {"pattern": f"^{part}", "definition": {"max-length": 1}}
        policies = [policy | {"name": f"{part}{number}", "vhost": vhost} for vhost in places for number in range(count)]
        begun_s = time.thread_time()
        import_definitions(node, {"policies": policies})
        assert within(time.thread_time() - begun_s, 1.0)
    for vhost in places:
        names = [policy.name for policy in node.policies.all(vhost)]
        assert len(names) == POLICIES_LIMIT and names == sorted(names, reverse=True)


NESTED = {
    "entries": lambda count: {"queues": [{"name": str(number)} for number in range(count)]},
    "unknown": lambda count: {"unknown": {str(number): {"name": str(number)} for number in range(count)}},
    "in an entry": lambda count: {"queues": [{"arguments": [{"name": str(number)} for number in range(count)]}]},
    "in many": lambda count: {"queues": [{"a": [[{}] * 10, {"b": [{}, "c"] * 10}]} for _ in range(count // 20)]},
    "no document": lambda count: [[{"name": str(number)} for number in range(count)]],
}


@pytest.mark.parametrize("shape", NESTED)
def test_a_document_is_freed_in_short_steps_whatever_its_shape(shape: str) -> None:
    for took_ms in attempts_within(SLICE_MS):
        document = NESTED[shape](10 * MANY)
        took_ms.append(longest_ms(release(document)))
        assert not document


def of_an_entry(value: object) -> dict[str, object]:
    return {"global_parameters": [{"name": "g", "value": value}]}


LONG_FRACTION = -1.2345678901234567e-300
LONG_FRACTIONS = [LONG_FRACTION] * (FRACTION_BYTES // 24)
LONG_ENTRIES: dict[str, tuple[dict[str, object], bool]] = {
    "values": (of_an_entry([{} for _ in range(VALUES_LIMIT - 10)]), True),
    "values of a set one": (of_an_entry([[number] for number in range(VALUES_LIMIT // 2 - 10)]), True),
    "fractions": (of_an_entry(LONG_FRACTIONS), True),
    "text and fractions": (of_an_entry(["\u00fc" * (1 << 19), *LONG_FRACTIONS]), True),
    "whole fractions": (of_an_entry([1234567890123456.0] * (FRACTION_BYTES // 9)), True),
    "too many fractions": (of_an_entry([LONG_FRACTION] * (VALUES_LIMIT - 10)), False),
    "addresses": (of_an_entry(["amqp://u:p@h/?a=b" for _ in range(VALUES_LIMIT - 10)]), True),
    "integers": (of_an_entry([10**630 for _ in range(MANY)]), False),
    "text": (of_an_entry(["\U0001f407" * (1 << 18)]), True),
    "too many values": (of_an_entry([{} for _ in range(50 * MANY)]), False),
    "too much text": (of_an_entry("\u00fc" * (50 * MANY)), False),
    "tags": ({"users": [{"name": "u", "tags": ["t"] * (50 * MANY)}]}, False),
    "a hash": ({"users": [{"name": "u", "password_hash": "\u00fc" * (1 << 19)}]}, False),
    "a name": ({"vhosts": [{"name": "\u00fc" * (1 << 19)}]}, False),
    "a definition": (
        {"policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": "\u00fc" * (1 << 19)}}]},
        False,
    ),
}


@pytest.mark.parametrize("shape", LONG_ENTRIES)
def test_one_long_entry_is_checked_imported_and_freed_in_short_turns(shape: str) -> None:
    """The import replaces the one before, which has to be compared."""
    document, right = LONG_ENTRIES[shape]
    limit_ms = TURN_MS - SLICE_MS
    node = new_node()
    node.add_vhost("/")
    node.start_events()
    for took_ms in attempts_within(limit_ms):
        node.parameters.set_global("g", LONG_ENTRIES["values of a set one"][0]["global_parameters"][0]["value"])  # type: ignore[index]
        plan = DefinitionsImport(node, document)
        longest = 0.0
        try:
            longest = longest_ms(plan.check())
            longest = max(longest, longest_ms(plan.carry_out()))
        except Invalid:
            assert not right
        else:
            assert right
        took_ms.append(longest)
