from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.warrenctl import Controlled, Ready, RunWith, Warrenctl, broker_process, commanded


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """The addresses of a broker."""
    with broker_process(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.addresses


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunWith:
    """Return functions that run warrenctl with the given options."""
    return partial(commanded, monkeypatch, capsys)


@pytest.fixture
def warrenctl(ready: Ready, run_with: RunWith) -> Warrenctl:
    """Run warrenctl at the unix socket of that broker."""
    return run_with("--data", str(Path(ready["control"][0]).parent))


@pytest.fixture
def by_http(ready: Ready, run_with: RunWith) -> Warrenctl:
    """Run warrenctl at the HTTP API of that broker."""
    return run_with("--url", f"http://guest:guest@{ready['http'][0]}")


@pytest.fixture
def in_process(controlled: Controlled, run_with: RunWith) -> Warrenctl:
    """Run warrenctl at the unix socket of the node inside this process."""
    return run_with("--data", str(controlled.folder))
