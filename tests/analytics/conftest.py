"""One Spark session for all tests, set up for little data: few tasks, and no code generated for each query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from warren.plugins.throughput.analysis import job
from warren.plugins.throughput.analysis.java_check import java_fault
from warren.plugins.throughput.analysis.spark_session import builder

QUICK = {
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": False,
    "spark.driver.memory": "1g",
    # room for all compiled code: in the 48 MB that belong to the first compiler, a thread would clear it without end
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn400m",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    fault = java_fault()
    if fault:
        pytest.skip(fault)  # make test has said so too
    building = builder("local[2]")
    for name, value in QUICK.items():
        building = building.config(name, value)
    session = building.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="package", autouse=True)
def few_partitions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "PARTITIONS", 1)
        yield
