"""The row numbers of the log: an aggregate by which missing and repeated records are found.

A row of the aggregate is a block of 64 numbers of one boot, with one bit for each number, or a run: several successive
blocks that have all their bits. A stored part has as few rows as possible, so its size is bounded by the number of
boots and gaps. A late record fills its block, and a repeated record is counted by the run that has its number.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..file_format import schema
from .aggregates import Aggregate, merged
from .journeys import BOOT

BLOCK_BITS = 6  # a block is 64 numbers
BLOCK = 1 << BLOCK_BITS
REGION_BITS = 10  # a region is 1024 blocks
ALL = -1  # the bits of a block that lacks no number


def rows(events: DataFrame) -> DataFrame:
    """Return the row numbers of the log as one bit each, and the offsets of the wall clock from the monotonic clock."""
    offset = F.unix_micros("ts_us") - F.floor(F.col("mono_ns") / 1000)
    return (
        events.select("node", "boot_id", "row", "ts_us", "sample_rate", offset.alias("offset"))
        .withColumn("block", F.shiftright("row", BLOCK_BITS))
        .groupBy(*BOOT, "block")
        .agg(
            F.expr(f"bit_or(shiftleft(1L, cast(row & {BLOCK - 1} as int)))").alias("bits"),
            F.count("*").alias("records"),
            F.min("row").alias("first_row"),
            F.max("row").alias("last_row"),
            F.min("ts_us").alias("first"),
            F.max("ts_us").alias("last"),
            F.min("offset").alias("least_offset"),
            F.max("offset").alias("greatest_offset"),
            F.min("sample_rate").alias("sample_rate"),
            F.lit(1).cast("long").alias("blocks"),
        )
    )


def present() -> Column:
    """Return how many numbers a row has."""
    return F.bit_count("bits") * F.col("blocks")


def end() -> Column:
    """Return the block after the last one of a row."""
    return F.col("block") + F.col("blocks")


def runs(parts: DataFrame) -> DataFrame:
    """Return joined rows: no two have the same block, and no two can be one run."""
    by_region = join(parts.withColumn("region", F.shiftright("block", REGION_BITS)))
    return join(by_region.withColumn("region", F.lit(0))).drop("region")


def join(parts: DataFrame) -> DataFrame:
    """Join the rows of each boot and region that overlap or make one run. Only a run can overlap with other blocks."""
    key = (*BOOT, "region")
    known = merged(parts, (*key, "block"), _MERGE)
    before = Window.partitionBy(*key).orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    full = F.col("bits") == ALL
    reached = F.max(F.when(full, end())).over(before)
    continues = F.coalesce((F.col("block") < reached) | full & (F.col("block") == reached), F.lit(False))
    numbered = known.withColumn("begins", (~continues).cast("long")).withColumn(
        "run", F.sum("begins").over(Window.partitionBy(*key).orderBy("block"))
    )
    how = {name: F.expr(f"{way}({name})").alias(name) for name, way in _MERGE.items()}
    how["blocks"] = (F.max(end()) - F.min("block")).alias("blocks")
    joined = numbered.groupBy(*key, "run").agg(F.min("block").alias("block"), *how.values())
    return joined.select(*parts.columns)


def by_region(some_rows: DataFrame) -> DataFrame:
    """Return rows cut at the limits of regions, with the column `region`."""
    regions = F.sequence(F.shiftright("block", REGION_BITS), F.shiftright(end() - 1, REGION_BITS))
    start = F.shiftleft("region", REGION_BITS)
    return (
        some_rows.withColumn("end", end())
        .withColumn("region", F.explode(regions))
        .withColumn("block", F.greatest("block", start))
        .withColumn("blocks", F.least("end", start + (1 << REGION_BITS)) - F.col("block"))
        .drop("end")
    )


_MERGE = {
    **dict.fromkeys(("first_row", "first", "least_offset", "sample_rate"), "min"),
    **dict.fromkeys(("last_row", "last", "greatest_offset", "blocks"), "max"),
    "bits": "bit_or",
    "records": "sum",
}
ROWS = Aggregate("rows", schema.EVENTS, rows, (*BOOT, "block"), _MERGE, shorten=runs, join=runs)
