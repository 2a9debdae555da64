from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.warrenctl import Controlled, Ready, Warrenctl, broker_process, commanded


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """The addresses of a broker."""
    with broker_process(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.addresses


@pytest.fixture
def warrenctl(ready: Ready, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Warrenctl:
    """Run warrenctl at the unix socket of that broker."""
    return commanded(monkeypatch, capsys, "--data", str(Path(ready["control"][0]).parent))


@pytest.fixture
def by_http(ready: Ready, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Warrenctl:
    """Run warrenctl at the HTTP API of that broker."""
    return commanded(monkeypatch, capsys, "--url", f"http://guest:guest@{ready['http'][0]}")


@pytest.fixture
def controlled(tmp_path: Path) -> Iterator[Controlled]:
    """A node inside this process."""
    made = Controlled(tmp_path)
    made.open()
    yield made
    made.close()


@pytest.fixture
def in_process(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Warrenctl:
    """Run warrenctl at the unix socket of the node inside this process."""
    return commanded(monkeypatch, capsys, "--data", str(controlled.folder))
