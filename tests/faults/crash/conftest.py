"""What the crash tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .daemon import Daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A broker that has not been started."""
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.close()
