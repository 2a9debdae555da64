from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.http import Api
from tests.support.prepared import prepare
from warren.plugins.management.api import routes
from warren.plugins.management.framework.http_api import HTTPAPI


@pytest.fixture
def api() -> Iterator[Api]:
    """The HTTP API of a fresh broker. A request that fails inside the broker fails the test."""
    made = Api()
    yield made
    made.close()
    assert not [fields for event, _, fields in made.peer.log if event == "internal_error"]


@pytest.fixture
def prepared(api: Api, tmp_path: Path) -> Api:
    """The HTTP API of a broker with an object for each route."""
    prepare(api, tmp_path / "reports")
    return api


@pytest.fixture
def web_of(api: Api) -> HTTPAPI:
    return HTTPAPI(api.host, api.state, routes())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker process with the HTTP API, on free ports of loopback."""
    with BrokerProcess(tmp_path, "--http", ANY_PORT, memory=True) as broker:
        yield broker
