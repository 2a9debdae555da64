"""The layout of an output folder of the analysis, for the job that fills it and for readers without Spark.

    runs/<run id>/            one run: `report.json`, `summary.json`, `index.html`, `tables/`
    current.json              the pointer: {"run": the current run, "earlier": [the published ones that are kept]}
    index.html                goes to the page of the current run
    report.json, tables       links to those of the current run, on a local disk

Readers also accept the folder of one run.
"""

import json
from pathlib import PurePath
from typing import Any

POINTER, RUNS = "current.json", "runs"
REPORT, SUMMARY, PAGE, TABLES = "report.json", "summary.json", "index.html", "tables"
POINTER_BYTES = 4096  # at most
VERDICT = ("status", "balanced", "reasons", "imbalance_count", "missing_records", "unchecked_records")


def pointer(run: str, earlier: list[str]) -> str:
    """Return the content of a pointer."""
    return json.dumps({"run": run, "earlier": earlier}) + "\n"


def runs(content: str | bytes) -> list[str]:
    """Return the runs that a pointer names, the current one first. Raises ValueError if it names anything else."""
    named = json.loads(content)
    if not isinstance(named, dict):
        raise ValueError(f"{POINTER} names no run")
    earlier = named.get("earlier", [])
    names = [named.get("run"), *(earlier if isinstance(earlier, list) else [None])]
    if not all(isinstance(name, str) and PurePath(name).name == name and name != ".." for name in names):
        raise ValueError(f"{POINTER} names no run")
    return names


def summary_of(report: dict[str, Any]) -> dict[str, object]:
    """Return the content of `summary.json`, which lists of reports show. Raises KeyError, TypeError for no report."""
    verdict = report["conservation"]
    return {
        "verdict": report.get("verdict"),
        "health": report.get("health"),
        "totals": report["totals"],
        **{name: verdict[name] for name in VERDICT if name in verdict},
    }


def run_folder(output: str, run: str) -> str:
    """Return the folder of a run below an output folder, which may be a URL."""
    return f"{output.rstrip('/')}/{RUNS}/{run}"
