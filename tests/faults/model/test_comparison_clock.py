"""The time at which the comparison with a reference explains what came (tools/compare)."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.model.session_model import Mismatch
from tools.compare.model_part import ReferenceMachine

PASSED_MS = 2_000


class Explained(ReferenceMachine):
    """A history in which a step is explained at some times alone."""

    def __init__(self, until_ms: float, from_ms: float) -> None:
        self._until_ms, self._from_ms = until_ms, from_ms
        self._started_s = time.monotonic() - PASSED_MS / 1000
        self._now_ms = 0
        self.model: Any = SimpleNamespace(now_ms=0)

    def collect(self) -> dict[Any, list[Any]]:
        return {}

    def _failure(self, *_: Any) -> Mismatch | None:
        explained = self._now_ms <= self._until_ms or self._now_ms >= self._from_ms
        return None if explained else Mismatch("", "", "")


@pytest.mark.parametrize(
    ("until_ms", "from_ms", "least_ms", "most_ms"),
    [
        (float("inf"), 0, PASSED_MS, 3 * PASSED_MS),  # at any time
        (0, float("inf"), 0, 0),  # before something is due
        (-1, PASSED_MS + 20, PASSED_MS + 20, 3 * PASSED_MS),  # after that
    ],
)
def test_the_clock_of_the_model_goes_on(until_ms: float, from_ms: float, least_ms: int, most_ms: int) -> None:
    """A message that came 2 s after the last frames expired 2 s too early."""
    machine = Explained(until_ms, from_ms)
    machine.explain(lambda model: None)
    assert least_ms <= machine.now_ms() <= most_ms
