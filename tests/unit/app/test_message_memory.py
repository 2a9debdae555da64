"""The memory that messages may take, by `warren.message_memory` and the memory of the machine or container."""

import pytest

from warren.broker.app import build
from warren.broker.app.build import BESIDE_BYTES, message_memory_bytes
from warren.broker.config import Config

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("total_bytes", "override_bytes", "limit_bytes"),
    [(512 * MIB, None, 512 * MIB * 2 // 5), (64 * GIB, None, 3 * GIB // 2), (64 * GIB, GIB, GIB * 2 // 5)],
)
def test_the_default_is_a_part_of_the_memory_of_the_container(
    monkeypatch: pytest.MonkeyPatch, total_bytes: int, override_bytes: int | None, limit_bytes: int
) -> None:
    monkeypatch.setattr(build, "total_bytes", lambda: total_bytes)
    config = Config(total_memory_bytes=override_bytes)
    assert message_memory_bytes(config) == limit_bytes - BESIDE_BYTES


@pytest.mark.parametrize(("limit_mib", "paged_mib"), [(64, 44), (40, 20), (30, 15), (1, 0.5)])
def test_a_part_is_left_for_what_is_beside_the_queues(limit_mib: int, paged_mib: float) -> None:
    assert message_memory_bytes(Config(message_memory_bytes=limit_mib * MIB)) == paged_mib * MIB
    assert message_memory_bytes(Config(message_memory_bytes=limit_mib * MIB, memory=True)) > 1 << 60
