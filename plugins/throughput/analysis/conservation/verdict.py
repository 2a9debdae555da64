"""The verdict of the conservation check: a status and its reasons."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from .checked_range import BOOT

BALANCED, IMBALANCED, INCOMPLETE, SAMPLED = "balanced", "imbalanced", "incomplete", "sampled"


class Verdict(NamedTuple):
    """The verdict. `reasons` say why it is not "balanced". Rows after a boot's last snapshot are not checked."""

    status: str
    reasons: list[str]
    checked_records: int
    unchecked_records: int
    lost_records: int
    duplicated_records: int

    @property
    def balanced(self) -> bool:
        return self.status == BALANCED


def certain_imbalances(imbalances: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the imbalances that dropped records cannot explain: of boots without any; of links if no boot has any."""
    lossy = spans.where(F.col("lost_records") > 0).select(*BOOT)
    anywhere = lossy.limit(1).select(F.lit(None).cast("string").alias("boot_id"))
    of_boots = imbalances.join(F.broadcast(lossy), BOOT, "left_anti")
    return of_boots.join(F.broadcast(anywhere), [F.equal_null(of_boots["boot_id"], anywhere["boot_id"])], "left_anti")


def verdict(spans: list[Row], imbalances: int, certain: int) -> Verdict:
    """Return the verdict, from rows of `checked_range.spans` with `killed` and the numbers of imbalances."""
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
    applying = [reason for reason, holds in reasons.items() if holds]
    if sampled:
        applying.append("the log is a sample: numbers are estimates, and queues cannot be compared with it")
    if certain:
        status = IMBALANCED
    elif imbalances or len(applying) > sampled:
        status = INCOMPLETE
    else:
        status = SAMPLED if sampled else BALANCED
    checked = sum(row["to_row"] - row["from_row"] for row in spans if row["to_snapshot"] is not None)
    return Verdict(
        status,
        applying,
        checked,
        sum(row["end_row"] - row["first_row"] for row in spans) - checked,
        sum(row["lost_records"] for row in spans),
        sum(row["duplicated"] for row in spans),
    )


def with_killed(spans: DataFrame) -> DataFrame:
    """Add the column `killed`: the boot did not stop in order, and the broker was started again later."""
    later = F.lead("boot_id").over(Window.partitionBy("node").orderBy("first", "boot_id"))
    return spans.withColumn("killed", ~F.col("stopped") & later.isNotNull())
