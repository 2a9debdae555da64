"""Routes for the reports that `warren analyze` has made, from the folder of the key `message_log.reports`."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from ...http.auth import MONITOR
from ...http.responses import Response, bad, missing, ok
from ...message_log.file_format.report_folder import (
    PAGE,
    POINTER,
    POINTER_BYTES,
    REPORT,
    SUMMARY,
    run_folder,
    runs,
    summary_of,
)
from ..framework.pagination import Item
from ..framework.request import Request
from ..framework.router import route

FOLDERS_LIMIT = 1000  # looked at
LISTED = 50  # the newest reports
REPORT_BYTES = 32 << 20  # larger ones are not read; lists in a report have at most 600 rows
DECODED_BYTES = 256 << 10  # longer reports are sent without decoding them, which would keep the interpreter
PAGE_HEADERS = {
    "content-disposition": 'attachment; filename="warren-report.html"',
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
}
Value = TypeVar("Value")


class RunView(msgspec.Struct):
    """The current run of a report, null if it has only one, and when it was published."""

    run: str | None
    made_at: str


@route("GET", MONITOR, "/warren/reports")
async def list_reports(request: Request) -> Response[list[Item]]:
    """List the newest reports with verdict, health and totals, the newest first; none if there is no such folder."""
    return ok(await request.wait(asyncio.to_thread(summaries, folder_of(request))))


@route("GET", MONITOR, "/warren/reports/{report}")
async def get_report(request: Request) -> Response[Item]:
    """Return the content of one report."""
    return Response(200, await of_report(request, content))


@route("GET", MONITOR, "/warren/reports/{report}/run")
async def get_run(request: Request) -> Response[RunView]:
    """Return the run that is the current one of a report, and when it was published; a stream publishes others."""
    return ok(await of_report(request, run))


@route("GET", MONITOR, "/warren/reports/{report}/page")
async def get_page(request: Request) -> Response[bytes]:
    """Return the page of one report, as a file to save: the page has scripts, which must not run beside the API."""
    page = await of_report(request, partial(read, name=PAGE))
    return Response(200, page, PAGE_HEADERS, media_type="text/html; charset=utf-8")


async def of_report(request: Request, part: Callable[[Path], Value]) -> Value:
    """Return a part of the report that the path names. Raises HTTPError (400, 404)."""
    folder = folder_of(request) / request.path["report"]
    if folder.parent != folder_of(request) or folder.name in ("", "..", "."):
        raise missing()
    try:
        return await request.wait(asyncio.to_thread(part, folder))
    except FileNotFoundError:
        raise missing() from None
    except (OSError, ValueError) as error:
        raise bad(f"the report cannot be read: {error}") from None


def folder_of(request: Request) -> Path:
    return Path(request.host.config.message_log.reports).absolute()


def summaries(folder: Path) -> list[Item]:
    """Return the newest reports of a folder."""
    try:
        folders = [path for path, _ in zip(folder.iterdir(), range(FOLDERS_LIMIT), strict=False)]
    except OSError:
        return []
    changed = {path: made_at_s for path in folders if (made_at_s := changed_s(path)) is not None}
    newest = sorted(changed, key=lambda path: changed[path], reverse=True)[:LISTED]
    return [summary(path, changed[path]) for path in newest]


def changed_s(folder: Path) -> float | None:
    """Return when the report in an output folder was published, in seconds since 1970, or None if there is none."""
    for name in (POINTER, REPORT):
        try:
            return (folder / name).stat().st_mtime
        except OSError:
            continue
    return None


def summary(folder: Path, made_at_s: float) -> Item:
    """Return name, time, verdict, health and totals of a report, or the error if it cannot be read."""
    item: Item = {"name": folder.name, "made_at": time_text(made_at_s)}
    try:
        return {**item, **brief(folder)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {**item, "error": f"the report cannot be read: {error}"}


def time_text(time_s: float) -> str:
    """Return a time, in seconds since 1970, in the format of ISO 8601."""
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def brief(folder: Path) -> Item:
    """Return the summary of the report in an output folder. Raises OSError, ValueError, KeyError, TypeError."""
    try:
        summary = json.loads(read(folder, SUMMARY, DECODED_BYTES))
    except FileNotFoundError:
        return summary_of(json.loads(read(folder, REPORT, DECODED_BYTES)))
    if not isinstance(summary, dict):
        raise ValueError(f"{SUMMARY} is no object")
    return summary


def content(folder: Path) -> bytes:
    """Return the report in an output folder; a short one is checked to be JSON. Raises OSError, ValueError."""
    text = read(folder, REPORT)
    if len(text) <= DECODED_BYTES:
        json.loads(text)
    return text


def run(folder: Path) -> RunView:
    """Return name and time of the current run in an output folder. Raises OSError, ValueError."""
    place = current_run(folder)
    made_at_s = (place / REPORT).stat().st_mtime
    name = place.name if place != folder else None
    return RunView(name, time_text(made_at_s))


def read(folder: Path, name: str, limit: int = REPORT_BYTES) -> bytes:
    """Return a file of the current run in an output folder, of `limit` bytes at most. Raises OSError, ValueError."""
    path = current_run(folder) / name
    size = path.stat().st_size
    if size > limit:
        raise ValueError(f"{name} has {size} bytes, and at most {limit} are read")
    return path.read_bytes()


def current_run(folder: Path) -> Path:
    """Return the folder of the run that the pointer names, or the folder itself if there is no pointer."""
    try:
        with (folder / POINTER).open("rb") as file:
            return Path(run_folder(str(folder), runs(file.read(POINTER_BYTES))[0]))
    except FileNotFoundError:
        return folder
