"""The publication of reports: each run writes a folder of its own, then one small file names it as the current run.

A run is `runs/<run id>/` in the output folder. Nothing that readers may have open is changed, and nothing is renamed,
since a rename in an object store copies every byte. The pointer `current.json` is replaced in one step: readers see
the earlier run or the new one, each whole, wherever a job was killed.

Beside it there are, for people and scripts, `index.html`, which goes to the page of the current run, and on this
machine the links `report.json` and `tables`. They are renewed after the pointer.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ..file_format.folder import Folder
from ..file_format.report_folder import PAGE, POINTER, REPORT, RUNS, TABLES, pointer, runs

EARLIER = 2  # runs that are kept besides the current one, for readers that have them open


def is_free(output: Folder) -> bool:
    """Return whether a first report can be made there: the folder has at most unfinished runs."""
    return not set(output.names()) - {RUNS}


@contextmanager
def new_run(output: Folder) -> Iterator[str]:
    """Yield the path of a new run, which begins with the time in UTC. It is removed unless it was published."""
    is_new = not output.exists()
    run = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    try:
        yield f"{RUNS}/{run}"
    finally:
        if run not in published(output):
            output.remove(f"{RUNS}/{run}")
            if is_new and not output.names(RUNS):
                output.remove("")


def published(output: Folder) -> list[str]:
    """Return the published runs, the current one first, or none. Raises OSError, ValueError."""
    return runs(output.read_text(POINTER)) if output.exists(POINTER) else []


def publish(output: Folder, path: str) -> None:
    """Make a complete run the current one, and remove all runs but it and the EARLIER ones before it."""
    run = path.rpartition("/")[2]
    earlier = published(output)[:EARLIER]
    output.replace(POINTER, pointer(run, earlier).encode())
    output.replace(PAGE, front_page(f"{path}/{PAGE}").encode())
    if output.local is not None:
        for name in (REPORT, TABLES):
            link(output.local / name, f"{path}/{name}")
    for other in set(output.names(RUNS)) - {run, *earlier}:
        output.remove(f"{RUNS}/{other}")


def report_of(folder: Folder) -> str:
    """Return the path of the report.json in an output folder, or in the folder of one run."""
    named = published(folder)
    return f"{RUNS}/{named[0]}/{REPORT}" if named else REPORT


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
