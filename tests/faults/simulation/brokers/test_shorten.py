"""The shortened history of a failure has the steps that it needs, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.faults.simulation.brokers import shorten


class FakeWorld:
    """A world that fails if it has steps 3 and 7, and fails in another way without step 9."""

    def __init__(self, seed: int, kept: Sequence[int] = ()) -> None:
        self.kept = kept
        self.trace = [f"step {number}" for number in kept]

    def live(self) -> None:
        if {3, 7} <= set(self.kept):
            if 9 not in self.kept:
                raise ValueError("another failure")
            raise AssertionError("lost")


def test_a_history_keeps_the_steps_without_which_it_fails_in_no_or_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shorten, "World", FakeWorld)
    steps = range(20)
    failure = shorten.fault_of(FakeWorld(1, steps))  # type: ignore[arg-type]
    assert failure is not None
    kept, error, trace = shorten.shorten(1, failure, steps)
    assert kept == [3, 7, 9] and str(error) == "lost" and trace == ["step 3", "step 7", "step 9"]
