"""The HTTP API of a standby."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.http import asgi_scope, call_application
from warren.broker.plugin_host.standby_host import StandbyHost
from warren.plugins.management.standby import StandbyAPI


@pytest.mark.parametrize("prefix", ["", "/rmq", "/rmq/"])
def test_health_checks_say_standby_below_each_form_of_the_prefix(prefix: str) -> None:
    host: Any = SimpleNamespace(config=SimpleNamespace(management=SimpleNamespace(path_prefix=prefix)))
    scope, body = asgi_scope("GET", "/health/checks/ready-to-serve-clients")
    scope["raw_path"] = prefix.rstrip("/").encode() + scope["raw_path"]
    response = asyncio.run(call_application(StandbyAPI(cast(StandbyHost, host)), scope, body))
    assert (response.status, response.json["reason"]) == (503, "standby")
