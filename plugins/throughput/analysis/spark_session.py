"""The Spark session of the job. Imports pyspark, so it is imported only when the job runs."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

LOCAL = "local[*]"
# In local mode the driver is all of Spark. These limits keep it below 4 GiB, memory outside Java's heap included.
DRIVER_MEMORY = "1536m"
DRIVER_OPTIONS = "-XX:+UseParallelGC -XX:MaxDirectMemorySize=512m"
ALLOCATOR = ("MALLOC_ARENA_MAX", "2")  # otherwise glibc has a heap for each of Spark's many threads
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which sets master and memory itself
CHOSEN_BY_SUBMIT = ("spark.driver.memory", "spark.driver.extraJavaOptions", "spark.ui.enabled")


def builder(master: str | None) -> SparkSession.Builder:
    """Return the builder of the session. The default of `master` is spark-submit's, else all cores of this machine."""
    building = SparkSession.Builder().appName("warren analyze")
    if master is None and SUBMITTED not in os.environ:
        master = LOCAL
    if master is not None:
        building = building.master(master)
        os.environ.setdefault(*ALLOCATOR)
        if master.startswith("local") or "127.0.0.1" in master:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise Spark looks for an address, and warns
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers run the `python3` on PATH
            building = building.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    settings: dict[str, str | int | bool] = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": DRIVER_OPTIONS,
        "spark.log.level": "ERROR",
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.adaptive.enabled": True,
        "spark.sql.adaptive.skewJoin.enabled": True,
        "spark.sql.adaptive.coalescePartitions.enabled": True,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.ignoreCorruptFiles": False,
    }
    for name, value in settings.items():
        if not (SUBMITTED in os.environ and name in CHOSEN_BY_SUBMIT):
            building = building.config(name, value)
    return building
