"""A broker at its limit of open files: AMQP is refused with the reason, and HTTP is answered."""

import json
import resource
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.broker_process import ANY_PORT, command_line, environment_of
from tests.support.http import HTTPClient
from tests.support.polling import until

pytestmark = [pytest.mark.sockets, pytest.mark.rest("a process from nothing, with a hundred connections")]
FILES = 128


def events(output: Path, name: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in output.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [event for event in lines if event["event"] == name]


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    """The log of a running broker that may open so many files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

    path = tmp_path / "output"
    line = command_line("serve", "--memory", "--amqp", ANY_PORT, "--http", ANY_PORT)
    with path.open("wb") as file:
        process = subprocess.Popen(
            line, cwd="/", env=environment_of(tmp_path), stdin=subprocess.DEVNULL, stderr=file, preexec_fn=limit
        )
    try:
        until(lambda: events(path, "ready"), within_s=60)
        yield path
    finally:
        process.terminate()
        process.wait(60)


def test_at_the_limit_a_client_is_told_and_health_is_answered(output: Path) -> None:
    (few,) = events(output, "few_descriptors")
    (ready,) = events(output, "ready")
    most = few["connections"]
    assert few["msg"].startswith(f"the limit of open files is {FILES}, enough for {most} connections: raise the limit")
    parameters = pika.URLParameters(f"amqp://guest:guest@{ready['amqp'][0]}/%2F?connection_attempts=1")
    api = HTTPClient(ready["http"][0], "/api")
    with ExitStack() as open_ones:
        for _ in range(most):
            open_ones.callback(pika.BlockingConnection(parameters).close)
        for _ in range(5):
            with pytest.raises(
                pika.exceptions.AMQPConnectionError, match=rf"node connection limit \({most}\) is reached"
            ):
                pika.BlockingConnection(parameters)
            assert api.get("/health/checks/alarms").status == 200
    pika.BlockingConnection(parameters).close()
