"""The Spark session of the job. Imports pyspark: only the job imports it.

Spark distributes Python functions and merges their results. It runs no query, so Java needs little memory and compiles
quickly rather than well.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from .java_check import java_program
from .java_class_cache import ClassCache, class_cache

LOCAL = "local[*]"
ALLOCATOR = ("MALLOC_ARENA_MAX", "2")  # without this glibc makes a heap for each of Spark's many threads
LAUNCHER = ("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # a Java that prints a command line
HOME = ("SPARK_HOME", str(Path(pyspark.__file__).parent))  # otherwise another Python looks for it
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which sets master and memory itself
MEMORY, JAVA_OPTIONS = "spark.driver.memory", "spark.driver.extraJavaOptions"
CHOSEN_BY_SUBMIT = (MEMORY, JAVA_OPTIONS, "spark.ui.enabled")
LOG = "-Dlog4j2.configurationFile=" + Path(__file__).with_name("log4j2.properties").resolve().as_uri()
HEAP_MIB = 640  # bytes of facts pass through it, on their way to the disk
SETTINGS: dict[str, str | bool] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    MEMORY: f"{HEAP_MIB}m",
    "spark.python.worker.memory": "2g",  # from which on Python's merges use the disk, which the job's own ones need not
    JAVA_OPTIONS: f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MaxDirectMemorySize=256m {LOG}",
}


@contextmanager
def session(
    master: str | None, driver_memory: str | None = None, further: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start the session, and stop it at the end.

    `master` is by default that of spark-submit, or all cores of this machine. `further` are settings that the caller
    chose, which prevail over all others.
    """
    if master is None and SUBMITTED not in os.environ:
        master = LOCAL
    java = None if master is None else java_program()
    archive = class_cache(java, Path(pyspark.__file__).parent) if java is not None else None
    spark = builder(master, driver_memory, further or {}, archive).getOrCreate()
    process: Any = getattr(spark.sparkContext._gateway, "proc", None)
    making = archive if archive is not None and archive.missing and process is not None else None
    succeeded = False
    try:
        yield spark
        succeeded = True
    finally:
        spark.stop()
        if making is not None and succeeded:
            making.keep(process)
        elif making is not None:
            process.kill()  # without this it would write the archive first


def builder(
    master: str | None, driver_memory: str | None, further: Mapping[str, str], archive: ClassCache | None
) -> SparkSession.Builder:
    """Return the builder of the session; `session` describes the arguments."""
    building = SparkSession.Builder().appName("warren analyze")
    chosen = dict(SETTINGS)
    if driver_memory is not None:
        chosen[MEMORY] = driver_memory
    if archive is not None:
        chosen[JAVA_OPTIONS] = f"{chosen[JAVA_OPTIONS]} {archive.options()}"
    if master is not None:
        building = building.master(master)
        os.environ.setdefault(*ALLOCATOR)
        os.environ.setdefault(*LAUNCHER)
        os.environ.setdefault(*HOME)
        if master.startswith("local") or "127.0.0.1" in master:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark searches for an address, and warns
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # without this workers run the `python3` on PATH
            building = building.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for name, value in chosen.items():
        if not (SUBMITTED in os.environ and name in CHOSEN_BY_SUBMIT):
            building = building.config(name, value)
    for name, text in further.items():
        building = building.config(name, text)
    return building
