"""The engines: where the files of a log are reduced and their facts are merged.

Both give the same facts. `InProcess` uses the threads of this process; `Spark` distributes files, and merges what they
give on its executors, so that only results reach this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..file_format.folder import Vanished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Value = TypeVar("Value")
Result = TypeVar("Result")

Pairs = Callable[[Item], Iterable[tuple[int, Value]]]
Merge = Callable[[list[Value]], Value]

AT_ONCE = 16  # values that are merged in one step, and at most so many of a key are held
PARTITIONS = 200  # at most, of the keys of a merge
PYTHON_ERROR = re.compile(r"^Traceback .*\n(?:[ \t].*\n)*([\w.]+)(?:: (.*))?$", re.MULTILINE)
TASKS = 4  # for each core, of many small files


class Engine(Protocol):
    """The interface of an engine. Functions must be importable where they run, and their values picklable."""

    name: str

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Return the result of each item, in their order."""

    def reduce(
        self,
        function: Pairs[Item, Value],
        items: Sequence[Item],
        merge: Merge[Value],
        finish: Callable[[tuple[int, Value]], Result],
        keys: int = 1,
        tasks: int = 1,
    ) -> list[Result]:
        """Merge the values that the function yields for all items, by key, and return what `finish` makes of each.

        Keys are the numbers below `keys`. The items are divided into at least so many `tasks`.
        """


class InProcess:
    """The threads of this process."""

    name = "in-process"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            return list(threads.map(function, items))

    def reduce(
        self,
        function: Pairs[Item, Value],
        items: Sequence[Item],
        merge: Merge[Value],
        finish: Callable[[tuple[int, Value]], Result],
        keys: int = 1,
        tasks: int = 1,
    ) -> list[Result]:
        groups: dict[int, list[Value]] = {}
        for first in range(0, len(items), AT_ONCE):  # so that what waits for its merge is bounded
            for pairs in self.map(lambda item: list(function(item)), items[first : first + AT_ONCE]):
                add(merge, groups, pairs)
        return [finish((key, merge(groups.pop(key)))) for key in list(groups)]


class Spark:
    """The executors of a session."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        if not items:
            return []
        with errors_of_tasks():
            return self._context.parallelize(items, self._tasks(items)).map(function).collect()

    def reduce(
        self,
        function: Pairs[Item, Value],
        items: Sequence[Item],
        merge: Merge[Value],
        finish: Callable[[tuple[int, Value]], Result],
        keys: int = 1,
        tasks: int = 1,
    ) -> list[Result]:
        if not items:
            return []
        tasks = max(self._tasks(items), min(tasks, len(items)))
        pairs = self._context.parallelize(items, tasks).mapPartitions(partial(merged, function, merge))
        lists, join = pairs.mapValues(lambda value: [value]), partial(extend, merge)
        groups = lists.reduceByKey(join, min(keys, PARTITIONS), int)
        with errors_of_tasks():
            return groups.mapValues(merge).map(finish).collect()

    def _tasks(self, items: Sequence[Item]) -> int:
        return min(len(items), max(TASKS * self._context.defaultParallelism, len(items) // AT_ONCE))


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise an error of a function on an executor as OSError, with its own text: Vanished if it was that."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raised = PYTHON_ERROR.findall(str(error))
        if not raised:
            raise
        name, text = raised[-1]
        raise (Vanished if name.endswith(f".{Vanished.__name__}") else OSError)(text or name) from None


def merged(function: Pairs[Item, Value], merge: Merge[Value], items: Iterable[Item]) -> Iterator[tuple[int, Value]]:
    """Yield the values of some items, those of each key merged."""
    groups: dict[int, list[Value]] = {}
    for item in items:
        add(merge, groups, function(item))
    for key in list(groups):
        yield key, merge(groups.pop(key))


def add(merge: Merge[Value], groups: dict[int, list[Value]], pairs: Iterable[tuple[int, Value]]) -> None:
    """Add values to those of their keys."""
    for key, value in pairs:
        groups[key] = extend(merge, groups.get(key, []), [value])


def extend(merge: Merge[Value], values: list[Value], others: list[Value]) -> list[Value]:
    """Join values of a key, and merge them if they are many."""
    values = values + others
    return values if len(values) < AT_ONCE else [merge(values)]
