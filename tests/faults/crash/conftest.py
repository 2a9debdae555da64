"""Fixtures of the crash tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that has not been started."""
    daemon = BrokerProcess(tmp_path)
    yield daemon
    daemon.close()
