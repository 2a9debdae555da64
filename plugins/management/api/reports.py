"""Routes for the reports that `warren analyze` has made, from the folder of the key `throughput.reports`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...http.auth import MONITOR
from ...http.responses import Response, bad, missing, ok
from ..framework.pagination import Item
from ..framework.request import Request
from ..framework.router import Route

NAME = "report.json"
FOLDERS_LIMIT = 1000  # looked at
LISTED = 50  # the newest reports
REPORT_BYTES = 32 << 20  # larger ones are not read; lists in a report have at most 600 rows
VERDICT = ("status", "balanced", "reasons", "imbalance_count", "missing_records", "unchecked_records")


async def list_reports(request: Request) -> Response:
    """List the newest reports with their verdict and totals, the newest first; none if there is no such folder."""
    return ok(await asyncio.to_thread(summaries, folder_of(request)))


async def get_report(request: Request) -> Response:
    """Return the content of one report."""
    path = folder_of(request) / request.path["report"]
    if path.parent != folder_of(request) or path.name in ("", "..", "."):
        raise missing()
    try:
        return ok(await asyncio.to_thread(read, path / NAME))
    except FileNotFoundError:
        raise missing() from None
    except (OSError, ValueError) as error:
        raise bad(f"the report cannot be read: {error}") from None


def folder_of(request: Request) -> Path:
    return Path(request.host.config.throughput.reports).absolute()


def summaries(folder: Path) -> list[Item]:
    """Return the newest reports of a folder."""
    try:
        found = [path / NAME for path, _ in zip(folder.iterdir(), range(FOLDERS_LIMIT), strict=False)]
    except OSError:
        return []
    changed = {path: path.stat().st_mtime for path in found if path.is_file()}
    newest = sorted(changed, key=lambda path: changed[path], reverse=True)[:LISTED]
    return [summary(path, changed[path]) for path in newest]


def summary(path: Path, changed_s: float) -> Item:
    """Return name, time, verdict and totals of a report, or the error if it cannot be read."""
    item: Item = {"name": path.parent.name, "made_at": datetime.fromtimestamp(changed_s, UTC).isoformat()}
    try:
        report = read(path)
        verdict = report["conservation"]
        fields = {name: verdict[name] for name in VERDICT if name in verdict}
        return {**item, "verdict": report.get("verdict"), "totals": report["totals"], **fields}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {**item, "error": f"the report cannot be read: {error}"}


def read(path: Path) -> Any:
    """Return the content of a report. Raises OSError, ValueError."""
    size = path.stat().st_size
    if size > REPORT_BYTES:
        raise ValueError(f"it has {size} bytes, and at most {REPORT_BYTES} are read")
    return json.loads(path.read_bytes())


ROUTES = (
    Route("GET", "/warren/reports", MONITOR, list_reports),
    Route("GET", "/warren/reports/{report}", MONITOR, get_report),
)
