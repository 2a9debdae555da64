"""Analyses in this process: the ledger of a log, and its report."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from warren.plugins.message_log.analysis import job
from warren.plugins.message_log.analysis.engine import Engine, InProcess
from warren.plugins.message_log.analysis.ledger import Ledger, make_ledger
from warren.plugins.message_log.analysis.report import make_report
from warren.plugins.message_log.analysis.selection import Selection
from warren.plugins.message_log.file_format.folder import Folder

REPORT_SCHEMA = Path(job.__file__).with_name("report.schema.json")


def ledger_of(folder: Path, stored: Path) -> Ledger:
    return make_ledger(InProcess(), Folder(str(folder)), Folder(str(stored)))


def values_of(ledger: Ledger) -> dict[str, Any]:
    """Return the content of report.json, made of a ledger."""
    return make_report(InProcess(), ledger).values


def report_of(folder: Path, output: Path, engine: Engine | None = None, stream: bool = False, **chosen: Any) -> Any:
    """Run the job. Returns the content of report.json."""
    selection = Selection(**chosen)
    made = job.Job(str(folder), str(output), lambda step: None, selection, stream=stream).run(engine or InProcess())
    return valid(made)


def valid(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report that satisfies its JSON Schema. Raises ValidationError."""
    Draft202012Validator(json.loads(REPORT_SCHEMA.read_text())).validate(report)
    return report
