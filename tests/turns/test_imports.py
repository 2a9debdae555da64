"""No import of definitions holds the loop, nor does the collector in the middle of it."""

import asyncio
import json
import time
from collections.abc import Iterable

import pytest

from tests.support.definitions import new_node
from tests.support.http import Api, asgi_scope, call_application
from tests.support.speed import within
from warren.broker.core.definitions.importer import DefinitionsImport, VHostPreview

from .meter import ATTEMPTS, LIMIT_MS, MANY, PATIENCE_S, SLICE_MS, Meter

QUEUES = MANY // 5  # each with a binding


def document(*more: str) -> bytes:
    names = [f"q{number}" for number in range(QUEUES)]
    place = {"vhost": "/", "arguments": {}}
    queues = [place | {"name": name, "durable": False, "auto_delete": False} for name in names]
    end = place | {"source": "amq.topic", "destination_type": "queue", "routing_key": "k"}
    return json.dumps(
        {"queues": queues, "bindings": [end | {"destination": name} for name in (*names, *more)]}
    ).encode()


@pytest.mark.parametrize(("more", "status"), [((), 204), (("missing",), 400)])
def test_an_import_of_many_queues_and_bindings_is_made_or_refused_in_short_turns(
    more: tuple[str, ...], status: int
) -> None:
    body = document(*more)
    best_ms = float("inf")
    for _ in range(ATTEMPTS):
        api, meter = Api(), Meter()
        scope, content = asgi_scope("POST", "/definitions", body)
        response = meter.run(asyncio.wait_for(call_application(api.application, scope, content), PATIENCE_S))
        assert response.status == status
        assert len(api.peer.node.vhosts["/"].queues) == (0 if more else QUEUES)
        best_ms = min(best_ms, meter.longest_s * 1000)
        meter.close()
        api.close()
        if within(best_ms, LIMIT_MS):
            break
    assert within(best_ms, LIMIT_MS)


def test_what_an_import_leaves_out_is_logged_in_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"queues": [{}] * MANY}).encode()
    best_ms = float("inf")
    for _ in range(ATTEMPTS):
        api, meter = Api(), Meter()
        monkeypatch.setattr(api.host, "report", lambda *line: sum(range(500)))  # about as long as a line of the log
        scope, content = asgi_scope("POST", "/definitions?leave-out=true", body)
        response = meter.run(asyncio.wait_for(call_application(api.application, scope, content), PATIENCE_S))
        assert response.status == 204
        best_ms = min(best_ms, meter.longest_s * 1000)
        meter.close()
        api.close()
        if within(best_ms, LIMIT_MS):
            break
    assert within(best_ms, LIMIT_MS)


def longest_ms(steps: Iterable[object]) -> float:
    longest_s, begun_s = 0.0, time.thread_time()
    for _ in steps:
        now_s = time.thread_time()
        longest_s, begun_s = max(longest_s, now_s - begun_s), now_s
    return max(longest_s, time.thread_time() - begun_s) * 1000


def test_a_plan_of_very_many_virtual_hosts_is_made_and_freed_in_short_steps() -> None:
    """Most of its containers are empty, and yet each one takes time."""
    best_ms = float("inf")
    for _ in range(ATTEMPTS):
        plan = DefinitionsImport(new_node(), {"vhosts": [{"name": f"v{number}"} for number in range(MANY)]})
        best_ms = min(best_ms, max(longest_ms(plan.check()), longest_ms(plan.release())))
        if within(best_ms, SLICE_MS):
            break
    assert within(best_ms, SLICE_MS)


def test_the_limits_of_virtual_hosts_are_checked_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[VHostPreview] = []
    monkeypatch.setattr(VHostPreview, "check_queues", lambda vhost: checked.append(vhost))
    plan = DefinitionsImport(new_node(), {"vhosts": [{"name": f"v{number}"} for number in range(10)]})
    assert [len(checked) for _ in plan.check()] == [0] * 10 + list(range(1, 11))


def test_the_check_of_a_policy_takes_no_longer_behind_very_many_others() -> None:
    policy = {"vhost": "v", "pattern": "^a", "definition": {"max-length": 1}}
    policies = [policy | {"name": f"p{number}"} for number in range(MANY)]
    plan = DefinitionsImport(new_node(), {"vhosts": [{"name": "v"}], "policies": policies})
    begun_s = time.thread_time()
    assert sum(1 for _ in plan.check()) == MANY + 2
    assert within(time.thread_time() - begun_s, 0.8)
