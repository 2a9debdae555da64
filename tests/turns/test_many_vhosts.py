"""Lists and totals over very many virtual hosts that one user may enter are made in short turns."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http import Api, asgi_scope
from tests.support.speed import within

from .crowd import stay
from .meter import TURN_MS, Meter

VHOSTS = 5_000
LISTS = ("overview", "policies", "operator-policies", "vhosts", "vhost-limits", "exchanges", "queues", "consumers",
         "parameters", "permissions", "whoami", "federation-links", "bindings", "nodes")  # fmt: skip


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    api = Api()
    node = api.peer.node
    names = [f"v{number}" for number in range(VHOSTS)]
    for name in names:
        node.add_vhost(name)
        for operator in (False, True):
            node.policies.set(name, "p", "^x", {"max-length": 1}, operator=operator)
    api.peer.add_user("watcher", ("policymaker",))
    for name in names:
        node.users.set_permission("watcher", name, ".*", ".*", ".*")
    yield api
    api.close()


@pytest.mark.parametrize("path", LISTS)
def test_very_many_virtual_hosts_are_listed_in_short_turns(api: Api, meter: Meter, path: str) -> None:
    statuses: list[int] = []

    async def send(event: Any) -> None:
        statuses.extend([event["status"]] if "status" in event else [])

    async def get() -> None:
        scope, _ = asgi_scope("GET", f"/{path}", user="watcher")
        await api.application(scope, stay, send)

    longest = meter.longest_ms(get)
    assert set(statuses) <= {200, 401} and within(longest, TURN_MS)
