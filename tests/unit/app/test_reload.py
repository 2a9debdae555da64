"""The reload of the configuration and of certificates, which SIGHUP asks for."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from warren.broker.app.main import keep_reloading
from warren.broker.config import Config


async def test_an_error_of_the_configuration_leaves_the_loop_alone_and_the_certificates_are_reloaded() -> None:
    done: list[str] = []

    def load() -> Config:
        done.append("loop" if threading.current_thread() is threading.main_thread() else "thread")
        raise MemoryError

    parts: Any = SimpleNamespace(
        running_config=Config, control=SimpleNamespace(read_config=load),
        reload_certificates=lambda: done.append("certificates"), reloading=lambda: done.append("reloading"),
        reloaded=lambda: done.append("reloaded"),
    )  # fmt: skip
    asked = asyncio.Event()
    asked.set()
    with pytest.raises(MemoryError):
        await keep_reloading(asked, parts, parts, parts)
    assert done == ["reloading", "thread", "certificates", "reloaded"]
    assert not asked.is_set()
