"""The engines: Spark gives the report that this process gives."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis import engine
from warren.plugins.message_log.analysis.engine import InProcess, Spark
from warren.plugins.message_log.file_format.folder import Vanished

from . import scenes
from .checking import report_of


def without_engine(report: dict[str, Any]) -> dict[str, Any]:
    return report | {"input": {name: value for name, value in report["input"].items() if name != "engine"}}


def test_both_engines_give_the_same_report(spark: SparkSession, tmp_path: Path) -> None:
    scenes.damaged(tmp_path / "log")
    scenes.well(tmp_path / "log")
    here = report_of(tmp_path / "log", tmp_path / "here", InProcess())
    there = report_of(tmp_path / "log", tmp_path / "there", Spark(spark))
    assert (here["input"]["engine"], there["input"]["engine"]) == ("in-process", "spark")
    assert without_engine(here) == without_engine(there)


def fail(number: int) -> None:
    raise (Vanished if number else OSError)(f"file {number} is gone")


@pytest.mark.parametrize(("number", "error"), [(0, OSError), (1, Vanished)])
def test_an_error_on_an_executor_is_raised_here_with_its_text(
    spark: SparkSession, number: int, error: type[OSError]
) -> None:
    for made in (InProcess(), Spark(spark)):
        with pytest.raises(OSError, match=f"file {number} is gone") as raised:
            list(made.map(fail, [number]))
        assert type(raised.value) is error


def test_values_are_merged_in_groups() -> None:
    merged: list[int] = []

    def merge(values: list[int]) -> int:
        merged.append(len(values))
        return sum(values)

    pairs = InProcess().reduce(lambda number: [(number % 2, number)], range(100), merge, tuple)
    assert dict(pairs) == {0: sum(range(0, 100, 2)), 1: sum(range(1, 100, 2))}
    assert max(merged) <= engine.AT_ONCE
