"""Groups of families that are about the same objects, by the names that /metrics/detailed knows them by.

A group measures all its families of an object at once and shows either each object, with labels, or all of them summed
up. What is counted of objects that come and go is not summed up over those that are there, but taken from where it was
counted in all as well: a counter never falls.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Generic, Literal, NamedTuple, TypeVar

from ..management.pagination import in_slices
from .scope import Scope

T = TypeVar("T")

RABBITMQ, DETAILED, CLUSTER, WARREN = "rabbitmq_", "rabbitmq_detailed_", "rabbitmq_cluster_", "warren_"

Texts = tuple[str, ...]
Values = Sequence[float]
Row = tuple[Texts, Values]
"""The values of the labels, and one for each family."""


class Rows:
    """Labels of objects, one after the other, and a column of values for each family.

    There is no tuple for each object: 100,000 of them would start the garbage collector, which visits all in a turn.
    """

    def __init__(self, families: int) -> None:
        self.texts: list[str] = []
        self.columns: list[array[float]] = [array("d") for _ in range(families)]

    def add(self, texts: Texts, values: Values) -> None:
        self.texts += texts
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)


class Family(NamedTuple):
    """`name` has no prefix."""

    name: str
    kind: Literal["gauge", "counter", "untyped"]
    help: str


class FamilyGroup:
    """What is shown in the same way everywhere. `rows` are few."""

    def __init__(
        self,
        name: str,
        families: Sequence[Family],
        rows: Callable[[Scope], Iterable[Row]],
        labels: Texts = (),
        prefix: str = RABBITMQ,
    ) -> None:
        self.name = name
        self.families = families
        self._rows = rows
        self._labels = labels
        self._prefix = prefix

    def labels(self, each: bool) -> Texts:
        """`each` asks for objects, in place of sums."""
        return self._labels

    def prefix(self, detailed: bool) -> str:
        """Of the names of families."""
        return DETAILED if detailed and self._prefix == RABBITMQ else self._prefix

    async def rows(self, scope: Scope, each: bool) -> Rows:
        rows = Rows(len(self.families))
        for texts, values in self._rows(scope):
            rows.add(texts, values)
        return rows


class PerObjectGroup(FamilyGroup, Generic[T]):
    """Of objects of which there may be many: they are looked at in slices.

    all       those of a scope
    measure   the values of one, in the order of the families
    texts     the labels of one
    total     in place of the sum, where that would forget what is gone
    gone      to be added to the sum
    summed    the labels of the sum, by name
    """

    def __init__(
        self,
        name: str,
        families: Sequence[Family],
        all: Callable[[Scope], Iterable[T]],
        measure: Callable[[T], Values],
        labels: Texts = (),
        texts: Callable[[T], Texts] = lambda one: (),
        total: Callable[[Scope], Values] | None = None,
        gone: Callable[[Scope], Values] | None = None,
        summed: Sequence[tuple[str, str]] = (),
        prefix: str = RABBITMQ,
    ) -> None:
        super().__init__(name, families, lambda scope: (), labels, prefix)
        self._all = all
        self._measure = measure
        self._texts = texts
        self._total = total
        self._gone = gone
        self._summed = summed

    def labels(self, each: bool) -> Texts:
        return self._labels if each and self._labels else tuple(name for name, _ in self._summed)

    async def rows(self, scope: Scope, each: bool) -> Rows:
        """Objects without labels are always summed up."""
        rows = Rows(len(self.families))
        if each and self._labels:
            async for one in in_slices(self._all(scope)):
                rows.add(self._texts(one), self._measure(one))
            return rows
        texts = tuple(text for _, text in self._summed)
        if self._total is not None:
            rows.add(texts, self._total(scope))
            return rows
        # What is gone and what is there are looked at in one moment: nothing is in both.
        sums: list[float] = list(self._gone(scope)) if self._gone is not None else [0] * len(self.families)
        async for one in in_slices(self._all(scope)):
            sums[:] = map(add, sums, self._measure(one))
        rows.add(texts, sums)
        return rows
