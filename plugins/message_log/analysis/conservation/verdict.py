"""The verdict of the conservation check: a status, its reasons, and one sentence for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .checked_range import BOOT
from .evidence import Evidence
from .imbalances import MISSING, OF_FILES

BALANCED, IMBALANCED, INCOMPLETE, SAMPLED = "balanced", "imbalanced", "incomplete", "sampled"
NAMED = 3  # boots that one reason names; further ones are counted
Boot = dict[str, Any]


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

    def sentence(self, imbalances: int) -> str:
        """Return the verdict in words; `imbalances` is their number."""
        checked, unchecked = f"{self.checked_records:,}", f"{self.unchecked_records:,}"
        text = {
            BALANCED: f"Nothing is missing: {checked} records were checked, "
            "and every message that entered a queue left it or is still in it.",
            IMBALANCED: f"The log does not balance: {count(imbalances, 'imbalance')} in {checked} checked records.",
            INCOMPLETE: "The log is not complete, so the result is not certain: "
            f"{checked} records were checked, {count(len(self.reasons), 'reason')} below.",
            SAMPLED: "The log is a sample: all numbers are estimates, and no loss can be excluded.",
        }[self.status]
        if self.unchecked_records and self.status != SAMPLED:
            text += f" {unchecked} records are not checked, because no snapshot follows them."
        return text


def certain_imbalances(imbalances: DataFrame, boots: DataFrame) -> DataFrame:
    """Return the imbalances that lost records cannot explain.

    They are those of files, those of boots that lost none, gaps of more records than the boot lost, and those of links
    if no boot lost any.
    """
    of_files = F.col("problem").isin(*OF_FILES)
    lossy = boots.where(F.col("lost_records") > 0).select(*BOOT, "lost_records")
    lacking = imbalances.where(F.col("problem") == MISSING).groupBy(*BOOT).agg(F.sum("records").alias("lacking"))
    explained = lossy.join(lacking, BOOT, "left").where(F.coalesce("lacking", F.lit(0)) <= F.col("lost_records"))
    anywhere = lossy.limit(1).select(F.lit(None).cast("string").alias("boot_id"))
    of_boots = imbalances.where(~of_files).join(F.broadcast(explained.select(*BOOT)), BOOT, "left_anti")
    same = F.equal_null(of_boots["boot_id"], anywhere["boot_id"])
    rest = of_boots.join(F.broadcast(anywhere), [same], "left_anti")
    return imbalances.where(of_files).unionByName(rest)


def verdict(
    boots: list[Boot], evidence: Evidence, imbalances: int, certain: int, uncertain_losses: Iterable[str] = ()
) -> Verdict:
    """Return the verdict, from the boots of `boots.describe` and the numbers of imbalances.

    `uncertain_losses` are the reasons of `not_kept`.
    """
    applying = [*reasons_of_boots(boots), *uncertain_losses, *evidence.reasons()]
    sampled = any(is_sample(boot) for boot in boots)
    if certain:
        status = IMBALANCED
    elif imbalances or applying:
        status = INCOMPLETE
    else:
        status = SAMPLED if sampled else BALANCED
    if sampled:
        applying.append("the log is a sample: numbers are estimates, and queues cannot be checked")
    checked = sum(boot["to_row"] - boot["from_row"] for boot in boots if boot["to_snapshot"] is not None)
    return Verdict(
        status,
        applying,
        checked,
        sum(boot["end_row"] - boot["first_row"] for boot in boots) - checked,
        sum(boot["lost_records"] for boot in boots),
        sum(boot["duplicated"] for boot in boots),
    )


def reasons_of_boots(boots: list[Boot]) -> list[str]:
    """Return the reasons for which the logs of these boots are not complete."""
    reasons = {
        "records were lost: the broker's buffer was full, its writer died, or they could not be written": [
            boot for boot in boots if boot["lost_records"]
        ],
        "records are in the log twice": [boot for boot in boots if boot["duplicated"]],
        "a broker was killed: its last records are unknown": [boot for boot in boots if boot["killed"]],
        "a log ends without a stop and is not continued: its broker or the writer of its export is dead": [
            boot for boot in boots if boot["silent"]
        ],
        "the log of the boot before is missing": [boot for boot in boots if boot["lacks_previous"]],
        "records that a killed writer had not finished are lost": [boot for boot in boots if boot["unfinished"]],
        "there is no snapshot to compare with": [
            boot for boot in boots if boot["to_snapshot"] is None and not is_sample(boot)
        ],
    }
    applying = [f"{reason} ({names(some)})" for reason, some in reasons.items() if some]
    return applying if boots else ["there is no log"]


def not_kept(after_stops: int, after_kills: int) -> list[str]:
    """Return the reasons about messages that are missing after a restart and not certainly lost."""
    reasons = {
        "a stop; the log does not show whether they had to be kept": after_stops,
        "a kill; they may have been settled after the last record": after_kills,
    }
    noun = "confirmed persistent message"
    return [f"{count(number, noun)} missing after {text}" for text, number in reasons.items() if number]


def is_sample(boot: Boot) -> bool:
    return (boot["sample_rate"] or 1) < 1


def names(boots: Iterable[Boot]) -> str:
    """Return nodes and boots, the first NAMED of them by name."""
    all_names = [f"{boot['node']} {boot['boot_id']}" for boot in boots]
    more = len(all_names) - NAMED
    return ", ".join(all_names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
