"""The boots of all nodes, with what became of each: stopped, killed, or silent. Plain Python: there are few boots."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as t

from .evidence import Evidence

Boot = dict[str, Any]
ADDED = {
    "next_boot_id": t.StringType(),  # of the same node, in this input
    "killed": t.BooleanType(),  # did not stop, and the broker was started again
    "silent": t.BooleanType(),  # did not stop, was not started again, and should have been heard of
}


def describe(spans: list[Row], evidence: Evidence) -> list[Boot]:
    """Return the boots of `checked_range.spans`, ordered by node and time, with the columns ADDED.

    A boot that has not stopped is silent if its newest record is older than a running writer lets it become: older than
    the age at which files are finished and three snapshots, by the clock of this machine, or by the newest record of
    any boot if that is later.
    """
    boots: list[Boot] = [row.asDict() for row in spans]
    boots.sort(key=lambda boot: (boot["node"], boot["first"] or datetime.min, boot["boot_id"]))
    now_us = max([evidence.now_us, *(micros(boot["last"]) for boot in boots)])
    for boot in boots:
        boot["next_boot_id"] = None
        boot["lost_records"] = max(boot["lost_records"], evidence.lost(boot["node"], boot["boot_id"]))
    for boot, later in pairwise(boots):
        if boot["node"] == later["node"]:
            boot["next_boot_id"] = later["boot_id"]
    for boot in boots:
        last = boot["next_boot_id"] is None
        boot["killed"] = not boot["stopped"] and not last
        allowed_us = evidence.silence_us(boot["node"], boot["boot_id"])
        boot["silent"] = not boot["stopped"] and last and now_us - micros(boot["last"]) > allowed_us
    return boots


def table(spark: SparkSession, boots: list[Boot], spans: DataFrame) -> DataFrame:
    """Return the boots as a table, with the columns of `spans` and ADDED."""
    fields = [*spans.schema.fields, *(t.StructField(name, kind) for name, kind in ADDED.items())]
    whole = t.StructType([t.StructField(each.name, each.dataType) for each in fields])
    return spark.createDataFrame([tuple(boot[each.name] for each in fields) for boot in boots], whole)


def micros(at: datetime | None) -> int:
    """Return a time that Spark has collected, which is one of this machine's time zone, in microseconds since 1970."""
    return round(at.timestamp() * 1_000_000) if at is not None else 0
