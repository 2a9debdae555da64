"""The time at which the comparison with a reference explains what came (tools/compare)."""

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.model.session_model import Mismatch
from tools.compare.model_part import ReferenceMachine

PASSED_MS = 2_000
NEVER = float("inf")


class Explained(ReferenceMachine):
    """A history in which a step is explained at some times alone; each look at the clock takes a millisecond."""

    def __init__(self, until_ms: float, from_ms: float) -> None:
        self._until_ms, self._from_ms = until_ms, from_ms
        self._times = count(PASSED_MS)
        self._now_ms = 0
        self.model: Any = SimpleNamespace(now_ms=0)

    def _passed_ms(self) -> int:
        return next(self._times)

    def collect(self) -> dict[Any, list[Any]]:
        return {}

    def _failure(self, *_: Any) -> Mismatch | None:
        explained = self._now_ms <= self._until_ms or self._now_ms >= self._from_ms
        return None if explained else Mismatch("", "", "")


@pytest.mark.parametrize(
    ("until_ms", "from_ms", "now_ms"),
    [
        (NEVER, 0, PASSED_MS),  # at any time
        (0, NEVER, 0),  # before something is due
        (-1, PASSED_MS + 20, PASSED_MS + 20),  # after that
    ],
)
def test_the_clock_of_the_model_goes_on(until_ms: float, from_ms: float, now_ms: int) -> None:
    """A message that came 2 s after the last frames expired 2 s too early."""
    machine = Explained(until_ms, from_ms)
    machine.explain(lambda model: None)
    assert machine.now_ms() == now_ms
