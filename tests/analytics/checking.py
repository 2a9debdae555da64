"""Runs of parts of the analysis, which take less time than all reports: the conservation check, and some reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis import job, streaming
from warren.plugins.message_log.analysis.aggregate_store import Store
from warren.plugins.message_log.analysis.conservation.check import CheckResult, check
from warren.plugins.message_log.analysis.conservation.evidence import evidence
from warren.plugins.message_log.analysis.conservation.manifest import check_files, read_manifest
from warren.plugins.message_log.analysis.hadoop_fs import Folders
from warren.plugins.message_log.analysis.input_files import list_files, read
from warren.plugins.message_log.analysis.reports import run
from warren.plugins.message_log.analysis.selection import ALL as EVERYTHING
from warren.plugins.message_log.analysis.tables import Tables
from warren.plugins.message_log.file_format import schema

REPORT_SCHEMA = Path(job.__file__).with_name("report.schema.json")
ON_THE_PAGE = ("latency", "hot_exchanges", "hot_keys")  # reports that the page cannot do without


def batch_of(spark: SparkSession, folder: Path, output: Path, *names: str) -> dict[str, Any]:
    """Run the job with the conservation check, the reports of these names and those of the page; return report.json."""
    with pytest.MonkeyPatch.context() as patch:
        chosen = [report for report in run.REPORTS if report.name in {*names, *ON_THE_PAGE}]
        patch.setattr(run, "REPORTS", chosen)
        return valid(job.batch(spark, str(folder), str(output), lambda what: None))


def valid(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report that satisfies its JSON Schema. Raises ValidationError."""
    Draft202012Validator(json.loads(REPORT_SCHEMA.read_text())).validate(report)
    return report


def checked(spark: SparkSession, folder: Path, output: Path) -> dict[str, Any]:
    """Return the section "conservation" of report.json."""
    return check_whole(spark, folder, output).conservation


def check_whole(spark: SparkSession, folder: Path, output: Path) -> CheckResult:
    """Make the conservation check."""
    manifest = read_manifest(Folders(spark), str(folder))
    inputs = list_files(Folders(spark), str(folder))
    made = job.reduce_all(spark, inputs, EVERYTHING, Store(spark, f"{output}/_aggregates"), lambda what: None)
    events = read(spark, schema.EVENTS, inputs[schema.EVENTS].paths)
    faults = check_files(spark, str(folder), manifest, inputs, {})
    known = evidence(inputs, manifest.boots, faults)
    written = Tables(spark, str(output), True, lambda what: None)
    return check(spark, made, events, known, written)


def process_new_files(spark: SparkSession, folder: Path, state: Path) -> Store:
    """Add the new files to the state of a stream, without a report."""
    folders, store = Folders(spark), Store(spark, f"{state}/aggregates")
    manifest = read_manifest(folders, str(folder))
    streaming.process(store, job.find_input(folders, str(folder)), manifest, lambda what: None)
    return store
