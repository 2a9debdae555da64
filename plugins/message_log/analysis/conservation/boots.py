"""The boots of all nodes: how each ended, and how it is linked to the boot before it.

Plain Python over rows that were collected, since there are few boots.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as t

from ..create_table import create_table
from .evidence import Evidence

Boot = dict[str, Any]
ADDED: dict[str, t.DataType] = {
    "next_boot_id": t.StringType(),  # of the same node, in this input
    "killed": t.BooleanType(),  # did not stop, and the broker was started again
    "silent": t.BooleanType(),  # did not stop, was not started again, and has no recent record
    "unfinished": t.LongType(),  # records that its writer had received and not finished, because it was killed too
    "lacks_previous": t.BooleanType(),  # the boot before it should be in this input, and is not
}
DAY_US = 86_400_000_000


def describe(spans: list[Row], evidence: Evidence) -> list[Boot]:
    """Return the boots of `checked_range.spans`, ordered by node and time, with the columns ADDED.

    A boot that has not stopped is silent if its newest record is older than a running writer allows: older than the age
    at which files are finished plus three snapshots. The time is that of this machine, or that of the newest record of
    any boot if it is later.

    `end_row` is raised to the number in the manifest, or in the link of the next boot, if that is greater. The records
    in between are then missing from the log. If the boot was killed and its manifest proves that its writer had not
    finished them, they count as lost with the writer.
    """
    boots: list[Boot] = [{**row.asDict(), "next_boot_id": None, "unfinished": 0} for row in spans]
    boots.sort(key=lambda boot: (boot["node"], boot["first"] or datetime.min, boot["boot_id"]))
    now_us = max([evidence.now_us, *(micros(boot["last"]) for boot in boots)])
    for boot in boots:
        name = boot["node"], boot["boot_id"]
        boot["lost_records"] = max(boot["lost_records"], evidence.lost(*name))
        boot["end_row"] = max(boot["end_row"], evidence.finished_row(*name) or 0)
    for _, of_node in groupby(boots, lambda boot: boot["node"]):
        link(list(of_node), evidence)
    for boot in boots:
        running = not boot["stopped"]
        boot["killed"] = running and boot["next_boot_id"] is not None
        allowed_us = evidence.silence_us(boot["node"], boot["boot_id"])
        boot["silent"] = running and not boot["killed"] and now_us - micros(boot["last"]) > allowed_us
    return boots


def link(boots: list[Boot], evidence: Evidence) -> None:
    """Link the boots of one node by the names in their first snapshots, or by time if names are missing."""
    by_id = {boot["boot_id"]: boot for boot in boots}
    for boot, later in pairwise(boots):
        boot["next_boot_id"] = later["boot_id"]
    newest_us = max(micros(boot["last"]) for boot in boots)
    for boot in boots:
        previous = by_id.get(boot["previous_boot"])
        boot["lacks_previous"] = (
            boot["previous_boot"] is not None and previous is None and not excused(boot, boots, newest_us, evidence)
        )
        if previous is not None and previous is not boot:
            previous["next_boot_id"] = boot["boot_id"]
            claim(previous, boot["previous_row"] or 0, evidence)


def claim(boot: Boot, next_row: int, evidence: Evidence) -> None:
    """Note that the log of a boot should reach up to `next_row` (exclusive)."""
    lacking = next_row - boot["end_row"]
    if lacking <= 0:
        return
    if boot["stopped"] or evidence.finished_row(boot["node"], boot["boot_id"]) is None:
        boot["end_row"] = next_row
    else:
        boot["unfinished"] = lacking


def excused(boot: Boot, boots: list[Boot], newest_us: int, evidence: Evidence) -> bool:
    """Return whether the boot before this one is rightly absent: removed by its age, or not selected."""
    if boot["previous_row"] == 0:
        return True  # it had no records
    ended_us = micros(boot["previous_at"]) if boot["previous_at"] is not None else micros(boot["first"])
    days = [each["retention_days"] for each in boots if each["retention_days"] is not None]
    too_old = bool(days) and ended_us // DAY_US < newest_us // DAY_US - min(days)
    return too_old or evidence.since_us is not None and ended_us < evidence.since_us


def table(spark: SparkSession, boots: list[Boot], spans: DataFrame) -> DataFrame:
    """Return the boots as a table, with the columns of `spans` and ADDED."""
    columns = {field.name: field.dataType for field in spans.schema.fields} | ADDED
    return create_table(spark, columns, [[boot[name] for name in columns] for boot in boots])


def restarts(boots: Iterable[Boot]) -> list[tuple[Boot, Boot]]:
    """Return pairs of successive boots of which the second began with what the first had stored."""
    boots = list(boots)
    by_name = {(boot["node"], boot["boot_id"]): boot for boot in boots}
    pairs = [(boot, by_name[boot["node"], boot["next_boot_id"]]) for boot in boots if boot["next_boot_id"] is not None]
    return [
        (boot, later)
        for boot, later in pairs
        if later["started"] and later["comparable"] is not False and later["previous_boot"] in (None, boot["boot_id"])
    ]


def micros(at: datetime | None) -> int:
    """Return a time in microseconds since 1970. Spark collects times in the time zone of this machine."""
    return round(at.timestamp() * 1_000_000) if at is not None else 0
