"""The run of an analysis without Spark: it makes the ledger of an export and publishes its report."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..analysis.page.document import document
from ..analysis.publication import is_free, new_run, publish, report_of
from ..file_format import schema
from ..file_format.report_folder import PAGE, REPORT, SUMMARY, summary_of
from .engine import InProcess
from .input import Folder, Vanished
from .ledger import Ledger, make_ledger
from .report import make_report
from .selection import ALL, Selection

NO_INPUT, NO_OUTPUT = 66, 73  # EX_NOINPUT and EX_CANTCREAT of sysexits.h
LISTINGS = 5  # at most
STATE = ".state"  # the suffix of the folder with the facts of a stream
Values = dict[str, Any]
LogProgress = Callable[[str], None]  # logs the step that begins


class JobRefused(Exception):
    """An error of one line, for input or output that cannot be used; `status` is the exit status of the process."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Disk:
    """The folders of this machine in which reports are published (`publication`)."""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        return [entry.name for entry in Path(path).iterdir()] if Path(path).is_dir() else []

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def text(self, path: str) -> str:
        return Path(path).read_text("utf-8")

    def write(self, path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, "utf-8")

    def replace(self, path: str, text: str) -> None:
        """Write a file, or replace it in one step."""
        new = Path(path).with_name(f".{Path(path).name}.tmp")
        self.write(str(new), text)
        new.replace(path)

    def remove(self, path: str) -> None:
        """Remove a folder or a file, if it is there."""
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def local(self, path: str) -> Path:
        return Path(path)


def analyze(
    folder: str,
    output: str,
    log: LogProgress,
    selection: Selection = ALL,
    compared: str | None = None,
    stream: bool = False,
    every_s: float | None = None,
) -> Values:
    """Report on an export, or a selection of it. Returns the content of report.json.

    compared  the folder of a report to compare with
    stream    keep the facts beside the output, and reduce only the hours that have changed since the run before
    every_s   run again after this time, without an end

    Raises JobRefused, OSError, ValueError or ArrowException, and publishes nothing then.
    """
    disk = Disk()
    old = read_old(disk, compared)
    state = f"{output.rstrip('/')}{STATE}"
    check_output(disk, folder, output, state, stream)
    while True:
        log("check files")
        with new_run(disk, output) as place:
            facts = state if stream else f"{place}/_facts"
            Path(facts).mkdir(parents=True, exist_ok=True)
            ledger = make_whole_ledger(folder, facts, selection)
            check_input(folder, ledger)
            log("report")
            made = make_report(InProcess(), ledger)
            if old is not None:
                made["compared"] = compare_with(old, made)
            disk.write(f"{place}/{REPORT}", dump(made))
            disk.write(f"{place}/{SUMMARY}", json.dumps(summary_of(made), allow_nan=False))
            disk.write(f"{place}/{PAGE}", document(made))
            disk.remove(f"{place}/_facts")
            publish(disk, place)
        if every_s is None:
            return made
        log(f"next look in {every_s:g} s")
        time.sleep(every_s)


def make_whole_ledger(folder: str, facts: str, selection: Selection) -> Ledger:
    """Make a ledger, again if listed files are gone: a compaction or the retention removes some at any time."""
    for _ in range(LISTINGS - 1):
        try:
            return make_ledger(InProcess(), Folder(folder), Folder(facts), selection)
        except Vanished:
            continue
    return make_ledger(InProcess(), Folder(folder), Folder(facts), selection)


def check_input(folder: str, ledger: Ledger) -> None:
    """Raise JobRefused if there is no log to read."""
    files = ledger.input
    if not files.of(schema.EVENTS) and not files.of(schema.QUEUE_STATS):
        text = f"no export of a broker ({len(files.skipped)} files that are none, or damaged)"
        raise JobRefused(f"{folder}: {text}", NO_INPUT)


def check_output(disk: Disk, folder: str, output: str, state: str, stream: bool) -> None:
    """Raise JobRefused if the output was not made by a stream, or was made from another input."""
    mark, input_folder = f"{state}/input", str(Path(folder).resolve()) if "://" not in folder else folder
    if stream and disk.exists(state):
        made_of = disk.text(mark) if disk.exists(mark) else "no stream of this kind"
        if made_of != input_folder:
            raise JobRefused(f"{output}: was made of {made_of}", NO_OUTPUT)
        return
    if not is_free(disk, output):
        text = "exists already, and no stream made it" if stream else "exists already"
        raise JobRefused(f"{output}: {text}", NO_OUTPUT)
    if stream:
        disk.write(mark, input_folder)


def read_old(disk: Disk, folder: str | None) -> Values | None:
    """Return the report in a folder, to compare with. Raises JobRefused if there is none."""
    if folder is None:
        return None
    from ..analysis.compare import UnusableReport, parse

    try:
        return parse(disk.text(report_of(disk, folder)))
    except (OSError, ValueError, UnusableReport) as error:
        raise JobRefused(f"{folder}: cannot be compared with: {one_line(error)}", NO_INPUT) from None


def compare_with(old: Values, made: Values) -> Values:
    from ..analysis.compare import compare

    return compare(old, made)


def dump(made: Values) -> str:
    """Return the content of report.json: a line for each value, and one line for the whole timeline."""
    text = json.dumps({**made, "timeline": None}, indent=1, allow_nan=False)
    timeline = json.dumps(made["timeline"], separators=(",", ":"), allow_nan=False)
    return text.replace('\n "timeline": null', f'\n "timeline": {timeline}', 1) + "\n"


def one_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


FAILURES = (OSError, ValueError, pa.ArrowException)
"""The errors of a run whose folders cannot be read or written."""


def progress() -> LogProgress:
    """Return a log of the steps on stderr, with the seconds since this call."""
    started_s = time.monotonic()

    def log(step: str) -> None:
        print(f"warren analyze: {time.monotonic() - started_s:6.1f} s  {step}", file=sys.stderr, flush=True)

    return log
