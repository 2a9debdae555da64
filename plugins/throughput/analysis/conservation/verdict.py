"""Whether it balances, in one word and its reasons."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from .checked_range import BOOT

BALANCED, IMBALANCED, INCOMPLETE, SAMPLED = "balanced", "imbalanced", "incomplete", "sampled"


class Verdict(NamedTuple):
    """`reasons` are why it is not simply balanced. What came after the last snapshot of a boot is not checked."""

    status: str
    reasons: list[str]
    checked_records: int
    unchecked_records: int
    lost_records: int
    duplicated_records: int

    @property
    def balanced(self) -> bool:
        return self.status == BALANCED


def certain(imbalances: DataFrame, spans: DataFrame) -> DataFrame:
    """Those that no record explains that a broker dropped: of boots that dropped none, of links where none did."""
    lossy = spans.where(F.col("lost_records") > 0).select(*BOOT)
    anywhere = lossy.limit(1).select(F.lit(None).cast("string").alias("boot_id"))
    of_boots = imbalances.join(F.broadcast(lossy), BOOT, "left_anti")
    return of_boots.join(F.broadcast(anywhere), [F.equal_null(of_boots["boot_id"], anywhere["boot_id"])], "left_anti")


def verdict(spans: list[Row], imbalances: int, certain: int) -> Verdict:
    """`spans` are rows of `span.spans` with `killed`; of the imbalances so many are certain."""
    reasons = {
        "records were dropped by the broker, whose buffer was full": any(row["lost_records"] for row in spans),
        "records are in the log twice": any(row["duplicated"] for row in spans),
        "a broker was killed: what it had not written yet is unknown": any(row["killed"] for row in spans),
        "there is no snapshot to compare with": any(
            row["to_snapshot"] is None and (row["sample_rate"] or 1) == 1 for row in spans
        ),
        "there is no log": not spans,
    }
    sampled = any((row["sample_rate"] or 1) < 1 for row in spans)
    found = [reason for reason, holds in reasons.items() if holds]
    if sampled:
        found.append("the log is a sample: numbers are estimates, and queues cannot be compared with it")
    if certain:
        status = IMBALANCED
    elif imbalances or len(found) > sampled:
        status = INCOMPLETE
    else:
        status = SAMPLED if sampled else BALANCED
    checked = sum(row["to_row"] - row["from_row"] for row in spans if row["to_snapshot"] is not None)
    return Verdict(
        status,
        found,
        checked,
        sum(row["end_row"] - row["first_row"] for row in spans) - checked,
        sum(row["lost_records"] for row in spans),
        sum(row["duplicated"] for row in spans),
    )


def with_killed(spans: DataFrame) -> DataFrame:
    """`killed`: it did not stop in order, and the broker was started again since."""
    later = F.lead("boot_id").over(Window.partitionBy("node").orderBy("first", "boot_id"))
    return spans.withColumn("killed", ~F.col("stopped") & later.isNotNull())
