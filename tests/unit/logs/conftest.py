"""Fixture that restores the log after each test."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from warren.broker import logs
from warren.broker.config.config import Log


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level
    yield
    logs.configure(Log(console=False))
    logs.publish_to(None)
    structlog.reset_defaults()
    root.handlers, root.level = before
