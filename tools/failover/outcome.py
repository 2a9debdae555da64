"""The outcome of a demand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a demand: whether it holds, or None if it was not measured, and the figures."""

    holds: bool | None
    text: str

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[self.holds]
