"""Declarations over HTTP while memory is low, which wait as those of AMQP clients do."""

import asyncio
from typing import Any

import pytest

from tests.support.http import Api, request
from tests.support.polling import until_async
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY
from warren.broker.hosting import memory_wait
from warren.plugins.management.http_api import HTTPAPI

BINDING = "/bindings/%2F/e/amq.topic/q/q"
NEW = (
    ("PUT", "/queues/%2F/new", {}),
    ("PUT", "/exchanges/%2F/new", {"type": "fanout"}),
    ("POST", BINDING, {"routing_key": "new"}),
    ("PUT", "/vhosts/new", {}),
    ("POST", "/definitions", {"queues": [{"vhost": "/", "name": "new"}]}),
)
EXISTING = (
    ("PUT", "/queues/%2F/q", {}),
    ("PUT", "/exchanges/%2F/x", {"type": "fanout"}),
    ("POST", BINDING, {"routing_key": "k"}),
    ("PUT", "/vhosts/%2F", {"description": "changed"}),
    ("PUT", "/policies/%2F/short", {"pattern": "", "definition": {"max-length": 1}}),
    ("POST", "/definitions", {"queues": [{"vhost": "/", "name": "q"}]}),
)


@pytest.fixture
def low(api: Api) -> Api:
    """The API of a broker whose memory is low."""
    for method, path, body in EXISTING:
        assert api.request(method, path, body).status < 300
    api.peer.node.alarms.set(MEMORY)
    return api


@pytest.mark.parametrize(("method", "path", "body"), NEW)
def test_a_new_object_waits_for_memory_and_what_exists_does_not(
    low: Api, web_of: HTTPAPI, method: str, path: str, body: dict[str, Any]
) -> None:
    alarms, waits = low.peer.node.alarms, low.host.memory

    async def visit() -> None:
        asking = asyncio.ensure_future(request(web_of, method, path, body))
        await until_async(lambda: waits._waiting == 1)
        for other in EXISTING:
            if other[1] != "/definitions" or path != "/definitions":  # imports are done one after the other
                assert (await request(web_of, *other)).status < 300
        alarms.set(DISK)
        alarms.clear(MEMORY)
        assert (await asking).status < 300
        assert waits._waiting == 0

    asyncio.run(visit())


@pytest.mark.parametrize(("method", "path", "body"), NEW)
def test_a_new_object_is_refused_for_now_if_memory_stays_low(
    low: Api, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: dict[str, Any]
) -> None:
    monkeypatch.setattr(memory_wait, "WAIT_S", 0.0)
    hooks = len(low.peer.node.alarms._hooks)
    answer = low.request(method, path, body)
    assert answer.status == 503 and answer.headers["retry-after"]
    assert answer.json["reason"] == "nothing new can be declared now: the broker is low on memory"
    assert len(low.peer.node.alarms._hooks) == hooks


def test_few_requests_wait_at_the_same_time(low: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_wait, "WAITING_LIMIT", 2)

    async def visit() -> None:
        waiting = [asyncio.ensure_future(request(web_of, "PUT", f"/queues/%2F/{n}", {})) for n in range(2)]
        await until_async(lambda: low.host.memory._waiting == 2)
        assert (await request(web_of, "PUT", "/queues/%2F/third", {})).status == 503
        low.peer.node.alarms.clear(MEMORY)
        assert [answer.status for answer in await asyncio.gather(*waiting)] == [201, 201]

    asyncio.run(visit())


def test_nothing_is_declared_in_a_virtual_host_that_is_deleted_meanwhile(low: Api, web_of: HTTPAPI) -> None:
    node = low.peer.node
    node.add_vhost("v")

    async def visit() -> None:
        asking = asyncio.ensure_future(request(web_of, "PUT", "/queues/v/q", {}))
        await until_async(lambda: low.host.memory._waiting == 1)
        node.delete_vhost("v")
        node.alarms.clear(MEMORY)
        assert (await asking).error == (404, "not_found", "vhost_not_found")

    asyncio.run(visit())
