"""The Spark session of the job, with settings by the size of the input. Imports pyspark: only the job imports it.

A small log costs little but the start of Java and the compilation of plans. So Java compiles quickly rather than well,
plans are interpreted instead of compiled, and each shuffle has one partition. A large log costs what its rows cost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from .aggregates import KEPT_KEYS
from .java_check import java_program
from .java_class_cache import ClassCache, class_cache

LOCAL = "local[*]"
ALLOCATOR = ("MALLOC_ARENA_MAX", "2")  # without this glibc makes a heap for each of Spark's many threads
LAUNCHER = ("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # a Java that prints a command line
HOME = ("SPARK_HOME", str(Path(pyspark.__file__).parent))  # otherwise another Python looks for it
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which sets master and memory itself
PARTITIONS = "spark.sql.shuffle.partitions"
MEMORY, JAVA_OPTIONS = "spark.driver.memory", "spark.driver.extraJavaOptions"
CHOSEN_BY_SUBMIT = (MEMORY, JAVA_OPTIONS, "spark.ui.enabled")
CHOSEN = "spark.warren.chosen"  # names of settings that the caller chose
CHANGEABLE = "spark.sql."

SMALL = 300_000  # events up to which a log is small
SHORT = 5_000_000  # events up to which Java's second compiler costs more than it gains
PARTITION_RECORDS = 500_000  # events for each partition of a shuffle: a task can hold them
LEAST_PARTITIONS = 8  # of a shuffle of a large log; adaptive execution coalesces small ones

MIB = 1 << 20
HEAP_SHARE = 4  # a quarter of the memory: Java and Python use as much again outside the heap
HEAP_MIB = (512, 4096)  # the least and the greatest heap: tasks write to disk what does not fit
SMALL_HEAP_MIB = 1024
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

# Classes of Java that PySpark would ask for with each column.
LOOKED_UP = ("functions", "PythonUtils", "org.apache.spark.sql.functions", "org.apache.spark.sql.classic.SparkSession")

Settings = dict[str, str | int | bool]
ALL_LOGS: Settings = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.sql.ui.explainMode": "simple",  # of the text of each plan, for which Spark's own pages have a use
    "spark.python.sql.dataFrameDebugging.enabled": False,  # seven calls of Java for each column, to name its line
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.optimizer.windowGroupLimitThreshold": KEPT_KEYS,  # the first keys of an exchange are chosen in each task
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # as in tables that this process writes
    "spark.sql.broadcastTimeout": -1,  # of a small table, which may be made of the whole log, and waits for other jobs
    "spark.sql.files.ignoreCorruptFiles": False,
    "spark.sql.files.maxPartitionBytes": "32m",  # about two million events, whose groups a task can hold
    "spark.sql.maxConcurrentOutputFileWriters": 2,  # tables divided in two are written without a sort
    "spark.sql.adaptive.skewJoin.enabled": True,
    "spark.sql.adaptive.coalescePartitions.enabled": True,
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",  # compressed: up to a million groups
}
JAVA = "-XX:MaxDirectMemorySize=512m -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
QUICK = "-XX:TieredStopAtLevel=1"
SMALL_LOG: Settings = {
    JAVA_OPTIONS: f"{QUICK} -XX:+UseSerialGC -Xmn400m {JAVA}",
    PARTITIONS: 1,
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
LARGE_LOG: Settings = {
    JAVA_OPTIONS: f"-XX:+UseParallelGC {JAVA}",
    "spark.sql.adaptive.enabled": True,
    "spark.sql.codegen.wholeStage": True,
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


def is_small(records: int | None) -> bool:
    return records is not None and records <= SMALL


def settings(records: int | None) -> Settings:
    """Return Spark's settings for a log of so many events. An unknown number (None) may be large."""
    if is_small(records):
        return {**ALL_LOGS, **SMALL_LOG}
    chosen = {**ALL_LOGS, **LARGE_LOG, PARTITIONS: max(LEAST_PARTITIONS, (records or 0) // PARTITION_RECORDS)}
    if records is not None and records <= SHORT:
        chosen[JAVA_OPTIONS] = f"{QUICK} {chosen[JAVA_OPTIONS]}"
    return chosen


@contextmanager
def session(
    master: str | None,
    records: int | None = None,
    driver_memory: str | None = None,
    further: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start the session for a log of `records` events, and stop it at the end.

    `master` is by default that of spark-submit, or all cores of this machine; `driver_memory` depends by default on the
    memory of this machine. `further` are settings that the caller chose, which prevail over all others.
    """
    if master is None and SUBMITTED not in os.environ:
        master = LOCAL
    java = None if master is None else java_program()
    archive = class_cache(java, Path(pyspark.__file__).parent) if java is not None else None
    spark = builder(master, records, driver_memory, further or {}, archive).getOrCreate()
    process: Any = getattr(spark.sparkContext._gateway, "proc", None)
    keep_names(spark)
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
    master: str | None,
    records: int | None,
    driver_memory: str | None,
    further: Mapping[str, str],
    archive: ClassCache | None,
) -> SparkSession.Builder:
    """Return the builder of the session; `session` describes the arguments."""
    building = SparkSession.Builder().appName("warren analyze")
    chosen = settings(records)
    chosen[MEMORY] = driver_memory or f"{heap_mib(memory_bytes(), records)}m"
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
    for name, text in {CHOSEN: ",".join(further), **further}.items():
        building = building.config(name, text)
    return building


def keep_names(spark: SparkSession) -> None:
    """Keep the classes of LOOKED_UP, which Java otherwise searches each time, some of them in all of Spark's jars."""
    java: Any = spark._jvm
    for name in LOOKED_UP:
        setattr(java, name, getattr(java, name))


def fit(spark: SparkSession, records: int) -> None:
    """Change the settings of a running session for a log of so many events, except those that the caller chose."""
    chosen = (spark.conf.get(CHOSEN, "") or "").split(",")
    for name, value in settings(records).items():
        if name.startswith(CHANGEABLE) and name not in chosen:
            spark.conf.set(name, value)


def memory_bytes() -> int:
    """Return the memory of this machine, or the limit of this process's control group if that is lower."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for place in CGROUP_LIMITS:
        try:
            text = Path(place).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            memory = min(memory, int(text))
    return memory


def heap_mib(memory: int, records: int | None) -> int:
    """Return the size of Java's heap, in MiB, for a log of so many events on a machine with so many bytes of memory."""
    least, greatest = HEAP_MIB
    if is_small(records):
        greatest = SMALL_HEAP_MIB
    return max(least, min(greatest, memory // MIB // HEAP_SHARE))
