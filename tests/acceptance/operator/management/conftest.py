import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, installed
from tests.support.http import Api
from tests.support.logging_broker import Broker
from tests.support.warrenctl import Controlled
from warren.plugins.management.api import routes
from warren.plugins.management.http_api import HTTPAPI


@pytest.fixture
def api() -> Iterator[Api]:
    """The HTTP API of a fresh broker."""
    made = Api()
    yield made
    made.close()


@pytest.fixture
def web_of(api: Api) -> HTTPAPI:
    return HTTPAPI(api.host, api.state, routes())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker process with the HTTP API, on free ports of loopback."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(tmp_path)), str(ROOT)])}
    line = [
        sys.executable,
        "-m",
        "warren.broker.cli",
        "serve",
        "--memory",
        "--amqp",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Broker(process)
        finally:
            process.kill()


@pytest.fixture
def controlled(tmp_path: Path) -> Iterator[Controlled]:
    """A node inside this process, with its unix socket."""
    made = Controlled(tmp_path)
    made.open()
    yield made
    made.close()
