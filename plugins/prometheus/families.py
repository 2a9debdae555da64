"""Groups of families about the same objects, with their names in /metrics/detailed.

A group measures all its families of an object at once and shows either each object with labels, or the sum. A sum over
existing objects would fall when one is deleted, so counters of such objects are summed where deleted ones are included.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ..http.time_slices import in_slices
from .scope import Scope

T = TypeVar("T")

RABBITMQ, DETAILED, CLUSTER, WARREN = "rabbitmq_", "rabbitmq_detailed_", "rabbitmq_cluster_", "warren_"

Kind = Literal["gauge", "counter", "untyped"]
Texts = tuple[str, ...]
Values = Sequence[float]
Row = tuple[Texts, Values]
"""The values of the labels, and one value for each family."""


class Rows:
    """The labels of all objects as one list, and a column of values for each family.

    There is no tuple for each object: 100,000 tuples would start the garbage collector, which visits all in one turn.
    """

    def __init__(self, families: int) -> None:
        self.texts: list[str] = []
        self.columns: list[array[float]] = [array("d") for _ in range(families)]

    def add(self, texts: Texts, values: Values) -> None:
        self.texts += texts
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)


class Family(NamedTuple):
    """A family; `name` has no prefix."""

    name: str
    kind: Kind
    help: str


def gauges(**helps: str) -> tuple[Family, ...]:
    """Return gauges, by the help of each."""
    return tuple(Family(name, "gauge", help) for name, help in helps.items())


def counters(**helps: str) -> tuple[Family, ...]:
    """Return counters, whose names end with `_total`, by the help of each."""
    return tuple(Family(f"{name}_total", "counter", help) for name, help in helps.items())


def text(name: str) -> str:
    """Return the value of a label: bytes that are not UTF-8 are escaped, so that distinct names stay distinct."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class FamilyGroup:
    """A group with the same form in each endpoint; the source of its rows may change while they are read."""

    name: str
    families: Sequence[Family]
    rows_of: Callable[[Scope], Iterable[Row]]
    label_names: Texts = ()
    prefix: str = RABBITMQ

    def labels(self, each: bool) -> Texts:
        """Return the names of the labels; `each` selects objects instead of sums."""
        return self.label_names

    async def rows(self, scope: Scope, each: bool) -> Rows:
        rows = Rows(len(self.families))
        async for texts, values in in_slices(self.rows_of(scope)):
            rows.add(texts, values)
        return rows


def single_row(measure: Callable[[Scope], Values]) -> Callable[[Scope], Iterable[Row]]:
    """Return the function of a group whose only row has these values and no labels."""
    return lambda scope: [((), measure(scope))]


@dataclass(frozen=True, slots=True)
class PerObjectGroup(Generic[T]):
    """A group about many objects, which are measured in slices."""

    name: str
    families: Sequence[Family]
    all: Callable[[Scope], Iterable[T]]
    measure: Callable[[T], Values]  # returns the values of an object, in the order of the families
    label_names: Texts = ()
    texts: Callable[[T], Texts] = lambda one: ()  # returns the labels of an object
    total: Callable[[Scope], Values] | None = None  # replaces the sum, if it would leave out deleted objects
    deleted: Callable[[Scope], Values] | None = None  # is added to the sum
    summed: Sequence[tuple[str, str]] = ()  # the labels of the sum, by name
    prefix: str = RABBITMQ

    def labels(self, each: bool) -> Texts:
        """Return the names of the labels; `each` selects objects instead of sums."""
        return self.label_names if each and self.label_names else tuple(name for name, _ in self.summed)

    async def rows(self, scope: Scope, each: bool) -> Rows:
        """Objects without labels are always summed."""
        rows = Rows(len(self.families))
        if each and self.label_names:
            async for one in in_slices(self.all(scope)):
                rows.add(self.texts(one), self.measure(one))
            return rows
        texts = tuple(text for _, text in self.summed)
        if self.total is not None:
            rows.add(texts, self.total(scope))
            return rows
        # Deleted and existing objects are read in one moment, so none counts twice.
        sums: list[float] = list(self.deleted(scope)) if self.deleted is not None else [0] * len(self.families)
        async for one in in_slices(self.all(scope)):
            sums[:] = map(add, sums, self.measure(one))
        rows.add(texts, sums)
        return rows


Group = FamilyGroup | PerObjectGroup[Any]
