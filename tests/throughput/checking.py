"""The conservation check alone, which takes a fraction of the time of all reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from plugins.throughput import schema
from plugins.throughput.analysis.folder import Folders
from plugins.throughput.analysis.intake import look, read
from plugins.throughput.analysis.journeys import BALANCES, STAGES
from plugins.throughput.analysis.reporting import Reporting
from plugins.throughput.analysis.store import ALL, Facts


def checked(spark: SparkSession, folder: Path, output: Path) -> dict[str, Any]:
    """What report.json would say of conservation."""
    paths = {table: look(Folders(spark), str(folder), table).paths for table in schema.TABLES}
    tables = {table: read(spark, table, paths[table]) for table in schema.TABLES}
    none = {fact.name: fact.make(read(spark, fact.table, [])) for fact in (BALANCES, STAGES)}
    facts = {fact.name: fact.make(tables[fact.table]) for fact in ALL if fact.name not in none}
    return Reporting(
        spark, Facts(**facts, **none), tables[schema.EVENTS], str(output), lambda what: None
    ).conservation()
