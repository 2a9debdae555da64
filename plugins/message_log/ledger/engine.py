"""The engines: where the files of a log are reduced and their facts are merged.

Both give the same facts. `InProcess` uses the threads of this process; `Spark` distributes files, and merges what they
give in a tree on its executors, so that only results reach this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")
Result = TypeVar("Result")


class Engine(Protocol):
    """The interface of an engine. Functions must be importable where they run, and their values picklable."""

    name: str

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Return the result of each item, in their order."""

    def reduce(
        self,
        function: Callable[[Item], Iterable[tuple[Key, Value]]],
        items: Sequence[Item],
        merge: Callable[[Value, Value], Value],
        finish: Callable[[tuple[Key, Value]], Result],
    ) -> list[Result]:
        """Merge the values that the function yields for all items, by key, and return what `finish` makes of each."""


class InProcess:
    """The threads of this process."""

    name = "in-process"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            return list(threads.map(function, items))

    def reduce(
        self,
        function: Callable[[Item], Iterable[tuple[Key, Value]]],
        items: Sequence[Item],
        merge: Callable[[Value, Value], Value],
        finish: Callable[[tuple[Key, Value]], Result],
    ) -> list[Result]:
        merged: dict[Key, Value] = {}
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            for pairs in threads.map(lambda item: list(function(item)), items):
                for key, value in pairs:
                    merged[key] = merge(merged[key], value) if key in merged else value
        return [finish(pair) for pair in merged.items()]


class Spark:
    """The executors of a session."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        return self._context.parallelize(items, max(len(items), 1)).map(function).collect()

    def reduce(
        self,
        function: Callable[[Item], Iterable[tuple[Key, Value]]],
        items: Sequence[Item],
        merge: Callable[[Value, Value], Value],
        finish: Callable[[tuple[Key, Value]], Result],
    ) -> list[Result]:
        pairs = self._context.parallelize(items, max(len(items), 1)).flatMap(function)
        return pairs.reduceByKey(merge).map(finish).collect()
