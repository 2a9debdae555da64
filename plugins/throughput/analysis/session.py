"""The Spark session of the job. Imports pyspark, so it is imported only when the job runs."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

LOCAL = "local[*]"
DRIVER_MEMORY = "2g"  # in local mode all of Spark; the figures of README.md were measured with it
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which then has chosen master and memory


def builder(master: str | None) -> SparkSession.Builder:
    """A session to be. `master` None: what spark-submit chose, else all cores of this machine."""
    building = SparkSession.Builder().appName("warren analyze")
    if master is None and SUBMITTED not in os.environ:
        master = LOCAL
    if master is not None:
        building = building.master(master)
        if master.startswith("local") or "127.0.0.1" in master:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark looks for an address, and warns
            building = building.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    settings: dict[str, str | int | bool] = {
        "spark.driver.memory": DRIVER_MEMORY,
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
        if not (SUBMITTED in os.environ and name in ("spark.driver.memory", "spark.ui.enabled")):
            building = building.config(name, value)
    return building
