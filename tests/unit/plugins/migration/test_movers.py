"""The state of the links of a migration."""

from types import SimpleNamespace
from typing import Any

import pytest

from warren.plugins.migration.brokers import QueueName
from warren.plugins.migration.movers import LINK_LIMIT, Drains, LinkState

ROW = {"type": "queue", "upstream": "m", "vhost": "/", "queue": "q", "forwarded": 7, "unconfirmed": 2}


@pytest.mark.parametrize(("fields", "state"), [
    ({"status": "running", "state": "flowing"}, LinkState(5, 2)),
    ({"status": "running", "state": "blocked", "reason": "memory"}, LinkState(5, 2, "memory")),
    ({"status": "starting"}, LinkState(7, 0, "starting")),
    ({"status": "error", "error": f"{LINK_LIMIT} is 1"}, LinkState(7, 0, f"{LINK_LIMIT} is 1", refused=True)),
])  # fmt: skip
def test_a_drain_that_moves_nothing_has_a_problem(fields: dict[str, str], state: LinkState) -> None:
    target: Any = SimpleNamespace(get=lambda path: [ROW | fields, ROW | fields | {"upstream": "other", "queue": "r"}])
    assert Drains(target, "m", "").state() == {QueueName("/", "q"): state}
