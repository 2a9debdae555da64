"""Routes for the reports that `warren analyze` has made, from the folder of the key `throughput.reports`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ...http.auth import MONITOR
from ...http.responses import Response, bad, missing, ok
from ..framework.pagination import Item
from ..framework.request import Request
from ..framework.router import Route

# A report is in a folder of its own below `runs` in the output folder, where the pointer names the current one.
POINTER, RUNS = "current.json", "runs"
NAME, PAGE = "report.json", "index.html"
FOLDERS_LIMIT = 1000  # looked at
LISTED = 50  # the newest reports
POINTER_BYTES = 4096
REPORT_BYTES = 32 << 20  # larger ones are not read; lists in a report have at most 600 rows
PAGE_HEADERS = {
    "content-disposition": 'attachment; filename="warren-report.html"',
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
}
VERDICT = ("status", "balanced", "reasons", "imbalance_count", "missing_records", "unchecked_records")


async def list_reports(request: Request) -> Response:
    """List the newest reports with their verdict and totals, the newest first; none if there is no such folder."""
    return ok(await asyncio.to_thread(summaries, folder_of(request)))


async def get_report(request: Request) -> Response:
    """Return the content of one report."""
    with readable(request) as folder:
        return ok(json.loads(await asyncio.to_thread(read, folder, NAME)))


async def get_page(request: Request) -> Response:
    """Return the page of one report, as a file to save: the page has scripts, which must not run beside the API."""
    with readable(request) as folder:
        page = await asyncio.to_thread(read, folder, PAGE)
    return Response(200, page, PAGE_HEADERS, media_type="text/html; charset=utf-8")


@contextmanager
def readable(request: Request) -> Iterator[Path]:
    """Give the output folder that the path names; what cannot be read there raises HTTPError (400, 404)."""
    path = folder_of(request) / request.path["report"]
    if path.parent != folder_of(request) or path.name in ("", "..", "."):
        raise missing()
    try:
        yield path
    except FileNotFoundError:
        raise missing() from None
    except (OSError, ValueError) as error:
        raise bad(f"the report cannot be read: {error}") from None


def folder_of(request: Request) -> Path:
    return Path(request.host.config.throughput.reports).absolute()


def summaries(folder: Path) -> list[Item]:
    """Return the newest reports of a folder."""
    try:
        found = [path for path, _ in zip(folder.iterdir(), range(FOLDERS_LIMIT), strict=False)]
    except OSError:
        return []
    changed = {path: made_at_s for path in found if (made_at_s := changed_s(path)) is not None}
    newest = sorted(changed, key=lambda path: changed[path], reverse=True)[:LISTED]
    return [summary(path, changed[path]) for path in newest]


def changed_s(folder: Path) -> float | None:
    """Return when the report in an output folder was published, in seconds since 1970, or None if there is none."""
    for name in (POINTER, NAME):
        try:
            return (folder / name).stat().st_mtime
        except OSError:
            continue
    return None


def summary(folder: Path, made_at_s: float) -> Item:
    """Return name, time, verdict and totals of a report, or the error if it cannot be read."""
    item: Item = {"name": folder.name, "made_at": datetime.fromtimestamp(made_at_s, UTC).isoformat()}
    try:
        report = json.loads(read(folder, NAME))
        verdict = report["conservation"]
        fields = {name: verdict[name] for name in VERDICT if name in verdict}
        return {**item, "verdict": report.get("verdict"), "totals": report["totals"], **fields}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {**item, "error": f"the report cannot be read: {error}"}


def read(folder: Path, name: str) -> bytes:
    """Return the content of a file of the current run in an output folder. Raises OSError, ValueError."""
    path = current_run(folder) / name
    size = path.stat().st_size
    if size > REPORT_BYTES:
        raise ValueError(f"it has {size} bytes, and at most {REPORT_BYTES} are read")
    return path.read_bytes()


def current_run(folder: Path) -> Path:
    """Return the folder of the run that the pointer names, or the folder itself if there is no pointer."""
    try:
        with (folder / POINTER).open("rb") as file:
            named = json.loads(file.read(POINTER_BYTES))
    except FileNotFoundError:
        return folder
    run = named.get("run") if isinstance(named, dict) else None
    if not isinstance(run, str) or Path(run).name != run or run == "..":
        raise ValueError(f"{POINTER} names no run")
    return folder / RUNS / run


ROUTES = (
    Route("GET", "/warren/reports", MONITOR, list_reports),
    Route("GET", "/warren/reports/{report}", MONITOR, get_report),
    Route("GET", "/warren/reports/{report}/page", MONITOR, get_page),
)
