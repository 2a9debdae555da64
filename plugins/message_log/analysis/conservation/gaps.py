"""The gaps in the row numbers of the log: records that the broker dropped or that were removed later."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..row_numbers import BLOCK, BLOCK_BITS, REGION_BITS, by_region, present
from .checked_range import BOOT

NUMBER_BITS = REGION_BITS + BLOCK_BITS
REGION = 1 << NUMBER_BITS  # row numbers; the blocks of a region are examined only if the region lacks a row


def gaps(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row for each gap: a range of the log, `first_row` to `last_row`, that lacks `records` rows."""
    order = Window.partitionBy(*BOOT).orderBy("first_row")
    begins = F.coalesce(F.col("first_row") != F.lag("last_row").over(order) + 1, F.lit(True))
    return (
        lacking_blocks(rows, spans)
        .withColumn("begins", begins)
        .select("*", F.sum(F.col("begins").cast("long")).over(order).alias("stretch"))
        .groupBy(*BOOT, "stretch")
        .agg(
            F.min("first_row").alias("first_row"),
            F.max("last_row").alias("last_row"),
            F.sum("records").alias("records"),
            F.min("near").alias("near"),
        )
        .drop("stretch")
    )


def lacking_blocks(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row for each block of the log that lacks a row."""
    ought = spans.where(F.col("end_row") > F.col("first_row")).select(*BOOT, "first_row", "end_row")
    last = F.shiftright(F.col("end_row") - 1, NUMBER_BITS)
    regions = ought.withColumn("region", F.explode(F.sequence(F.shiftright("first_row", NUMBER_BITS), last)))
    pieces = by_region(rows)
    there = pieces.groupBy(*BOOT, "region").agg(F.sum(present()).alias("present"))
    low, high = inside(F.col("region"), REGION)
    lacking = regions.join(there, [*BOOT, "region"], "left").where(F.coalesce("present", F.lit(0)) < high - low)
    low, high = inside(F.col("region"), REGION)
    blocks = lacking.withColumn(
        "block", F.explode(F.sequence(F.shiftright(low, BLOCK_BITS), F.shiftright(high - 1, BLOCK_BITS)))
    ).drop("present")
    low, high = inside(F.col("block"), BLOCK)
    numbers = F.sequence(low, high - 1)
    bits = F.coalesce("bits", F.lit(0)).cast("long")
    known = (
        pieces.join(lacking.select(*BOOT, "region"), [*BOOT, "region"], "left_semi")
        .withColumn("block", F.explode(F.sequence("block", F.col("block") + F.col("blocks") - 1)))
        .select(*BOOT, "block", "bits", "first")
    )
    missing = F.filter(numbers, lambda row: F.getbit(bits, (row % BLOCK).cast("int")) == 0)
    return (
        blocks.join(known, [*BOOT, "block"], "left")
        .withColumn("missing", missing)
        .where(F.size("missing") > 0)
        .select(
            *BOOT,
            F.array_min("missing").alias("first_row"),
            F.array_max("missing").alias("last_row"),
            F.size("missing").cast("long").alias("records"),
            F.col("first").alias("near"),
        )
    )


def inside(number: Column, size: int) -> tuple[Column, Column]:
    """Return the first row and the end (exclusive) of a block or region of this size, within the rows of the boot."""
    return F.greatest(number * size, F.col("first_row")), F.least((number + 1) * size, F.col("end_row"))
