"""One Spark session for all tests, with the settings that a small log has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis.java_check import java_fault
from warren.plugins.message_log.analysis.spark_session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    fault = java_fault()
    if fault:
        pytest.skip(fault)  # make test has said so too
    with session("local[2]", records=0, driver_memory="1g") as started:
        yield started
