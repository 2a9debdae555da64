"""The publication of reports: each run writes a folder of its own, then one small file names it as the current run.

A run is `runs/<run id>/` in the output folder. Nothing that readers may have open is changed, and nothing is renamed,
since a rename in an object store copies every byte. The pointer `current.json` is replaced in one step: readers see
the earlier run or the new one, each whole, wherever a job was killed.

Beside it there are, for people and scripts, `index.html`, which goes to the page of the current run, and on this
machine the links `report.json` and `tables`. They are renewed after the pointer.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from ..file_format.report_folder import PAGE, POINTER, REPORT, RUNS, TABLES, pointer, run_folder, runs

EARLIER = 2  # runs that are kept besides the current one, for readers that have them open


class Folders(Protocol):
    """The folders in which reports are published: of this machine, or of a store that Hadoop reads."""

    def names(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def text(self, path: str) -> str: ...
    def replace(self, path: str, text: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def local(self, path: str) -> Path | None: ...


def run_id() -> str:
    """Return the name of a new run, which begins with the time in UTC."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def is_free(folders: Folders, output: str) -> bool:
    """Return whether a first report can be made there: the folder has at most unfinished runs."""
    return not set(folders.names(output)) - {RUNS}


@contextmanager
def new_run(folders: Folders, output: str) -> Iterator[str]:
    """Yield the folder of a new run. It is removed at the end unless the run was published."""
    run = run_id()
    folder = run_folder(output, run)
    try:
        yield folder
    finally:
        if run not in published(folders, output):
            folders.remove(folder)


def published(folders: Folders, output: str) -> list[str]:
    """Return the published runs, the current one first, or none. Raises OSError, ValueError."""
    place = f"{output.rstrip('/')}/{POINTER}"
    return runs(folders.text(place)) if folders.exists(place) else []


def publish(folders: Folders, folder: str) -> None:
    """Make a complete run the current one, and remove all runs but it and the EARLIER ones before it."""
    place, _, run = folder.rpartition("/")
    output = place.removesuffix(f"/{RUNS}")
    earlier = published(folders, output)[:EARLIER]
    folders.replace(f"{output}/{POINTER}", pointer(run, earlier))
    folders.replace(f"{output}/{PAGE}", front_page(f"{RUNS}/{run}/{PAGE}"))
    local = folders.local(output)
    if local is not None:
        for name in (REPORT, TABLES):
            if (local / RUNS / run / name).exists():
                link(local / name, f"{RUNS}/{run}/{name}")
            else:
                (local / name).unlink(missing_ok=True)  # of a run before, which had tables
    for other in set(folders.names(place)) - {run, *earlier}:
        folders.remove(f"{place}/{other}")


def report_of(folders: Folders, folder: str) -> str:
    """Return the path of the report.json in an output folder, or in the folder of one run."""
    top = folder.rstrip("/")
    named = published(folders, top)
    return f"{run_folder(top, named[0]) if named else top}/{REPORT}"


def front_page(address: str) -> str:
    """Return a page that goes to another one."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Warren: where every message went</title>
<meta http-equiv="refresh" content="0; url={address}"></head>
<body><p><a href="{address}">The report</a></p></body></html>
"""


def link(place: Path, target: str) -> None:
    """Make a symbolic link, or replace one in one step."""
    new = place.with_name(f".{place.name}-{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(place)
