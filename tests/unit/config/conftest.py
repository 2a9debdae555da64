"""Fixtures: configuration files to write."""

from pathlib import Path

import pytest


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "broker.conf"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"
