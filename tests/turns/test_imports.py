"""No import of definitions holds the loop, nor does the collector in the middle of it."""

import asyncio
import json

import pytest

from tests.support.http import Api, asgi_scope, call_application
from tests.support.speed import within

from .meter import ATTEMPTS, LIMIT_MS, MANY, PATIENCE_S, Meter

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
