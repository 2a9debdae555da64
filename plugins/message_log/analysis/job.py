"""The run of an analysis: it makes the ledger of an export and publishes its report."""

import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from warren.broker.system_errors import file_error

from ..file_format import schema
from ..file_format.folder import Folder, Vanished
from ..file_format.printable import count, printable
from ..file_format.report_folder import PAGE, REPORT, SUMMARY, TABLES, summary_of
from .beginnings import micros
from .boots import FILE_AGE_S, SILENCE_S
from .compare import UnusableReport, compare, parse
from .engine import Engine
from .facts import Values
from .ledger import Ledger, make_ledger
from .page.document import document
from .publication import is_free, new_run, publish, published, report_of
from .report import SCHEMA, Report, make_report
from .selection import ALL, Selection
from .store import VERSION

NO_INPUT, NO_OUTPUT = 66, 73  # EX_NOINPUT and EX_CANTCREAT of sysexits.h
LISTINGS = 5  # at most
STATE, LOCK, MARK, LAST = ".state", "lock", "input", "last.json"  # the suffix of a stream's folder, and files in it
FAILURES = (OSError, ValueError, pa.ArrowException)
"""The errors of a run whose folders cannot be read or written."""
LogProgress = Callable[[str], None]  # logs the step that begins


class JobRefused(Exception):
    """An error of one line, for input or output that cannot be used; `status` is the exit status of the process."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Last(msgspec.Struct):
    """The last run of a stream: its input as `Job._listed`, its path, and the time when its verdict may change."""

    listed: str
    run: str
    until_us: int | None


class Job:
    """An analysis of the export in a folder, or of a selection of it.

    compared  the folder of a report to compare with, or None
    stream    keep the facts beside the output, and reduce only the hours that have changed since the run before
    """

    def __init__(
        self,
        folder: str,
        output: str,
        log: LogProgress,
        selection: Selection = ALL,
        compared: str | None = None,
        stream: bool = False,
    ) -> None:
        """Check the folders. Raises JobRefused, OSError or ValueError."""
        self.folder, self.output = opened(folder, NO_INPUT), opened(output, NO_OUTPUT)
        self.state = self.output.beside(STATE)
        self._log = log
        self._selection = selection
        self._stream = stream
        self._old = read_old(compared)
        try:
            self._check_input()
        except OSError as error:
            raise JobRefused(file_error(error, self.folder.name), NO_INPUT) from None
        try:
            self._check_output()
            with new_run(self.output) as run:  # removed at once: later failures would be those after minutes of Spark
                self.output.write_bytes(f"{run}/{SUMMARY}", b"")
        except OSError as error:
            raise JobRefused(file_error(error, self.output.name), NO_OUTPUT) from None

    def run(self, engine: Engine) -> Values:
        """Report once. Returns the content of report.json.

        Raises JobRefused or one of FAILURES, and publishes nothing then.
        """
        with locked(self.state if self._stream else None):
            return self._run(engine)

    def _run(self, engine: Engine) -> Values:
        listed = self._listed()
        with new_run(self.output) as run:
            facts = self.state if self._stream else self.output.below(f"{run}/_facts")
            self._log("reduce")
            ledger = self._make_ledger(engine, facts)
            self._log("report")
            report = make_report(engine, ledger)
            if self._old is not None:
                report.values["compared"] = compare(self._old, report.values)
            self._write(run, report)
            self.output.remove(f"{run}/_facts")
            publish(self.output, run)
            if self._stream:
                last = Last(listed, run, silent_from_us(ledger))
                self.state.write_bytes(LAST, msgspec.json.encode(last))
        return report.values

    def unchanged(self) -> Values | None:
        """Return the published report of a stream if a run would report the same, or None.

        It does if the files of the input are those of the last run, and no broker can have been silent for too long
        since. Raises JobRefused if another stream has the output, OSError, ValueError.
        """
        if not self._stream:
            return None
        with locked(self.state):
            return self._unchanged()

    def _unchanged(self) -> Values | None:
        if not self.state.exists(LAST) or not published(self.output):
            return None
        last = msgspec.json.decode(self.state.read_text(LAST), type=Last)
        current = report_of(self.output)
        if last.listed != self._listed() or not current.startswith(f"{last.run}/"):
            return None
        if last.until_us is not None and time.time_ns() // 1000 >= last.until_us:
            return None
        return parse(self.output.read_text(current))

    def _listed(self) -> str:
        """Return a checksum of the names and sizes of all files of the input, of their manifests too."""
        content = repr([VERSION, SCHEMA, *self.folder.files("").items()])
        return hashlib.sha256(content.encode()).hexdigest()

    def follow(self, engine: Engine, every_s: float) -> None:
        """Report again and again, also after a run that failed. Raises JobRefused if another stream has the output."""
        with locked(self.state):
            while True:
                try:
                    report = self._unchanged() or self._run(engine)
                    said = f"{report['health']['sentence']} {report['verdict']}"
                except (JobRefused, *FAILURES, LookupError, TypeError) as error:  # the input may be right next time
                    said = f"{one_line(error)}."
                self._log(f"{said} Next look in {every_s:g} s")
                time.sleep(every_s)

    def _make_ledger(self, engine: Engine, facts: Folder) -> Ledger:
        """Make a ledger, again if listed files are gone: a compaction or the retention removes some at any time."""
        for left in reversed(range(LISTINGS)):
            try:
                ledger = make_ledger(engine, self.folder, facts, self._selection)
                break
            except Vanished:
                if not left:
                    raise
        absent = absent_names(ledger)
        if absent or (not ledger.boots and not self._selection.is_whole):
            text = ": " + ", ".join(f"no {name}" for name in absent) if absent else ""
            raise JobRefused(f"{self.folder.name}: the selection names nothing in the log{text}", NO_INPUT)
        if not ledger.input.of(schema.EVENTS) and not ledger.input.of(schema.QUEUE_STATS):
            text = f"no export of a broker ({count(len(ledger.input.skipped), 'skipped file')})"
            raise JobRefused(f"{self.folder.name}: {text}", NO_INPUT)
        return ledger

    def _write(self, run: str, report: Report) -> None:
        self.output.write_bytes(f"{run}/{REPORT}", dump(report.values).encode())
        self.output.write_bytes(f"{run}/{SUMMARY}", json.dumps(summary_of(report.values), allow_nan=False).encode())
        self.output.write_bytes(f"{run}/{PAGE}", document(report.values).encode())
        for name, rows in report.tables.items():
            self.output.write(f"{run}/{TABLES}/{name}.parquet", pa.Table.from_pylist(rows))

    def _check_input(self) -> None:
        """Raise JobRefused if there is no log to read."""
        if not self.folder.exists():
            raise JobRefused(f"{self.folder.name}: no such folder: name that of an export with --input", NO_INPUT)
        if not any(self.folder.files(table) for table in (schema.EVENTS, schema.QUEUE_STATS)):
            text = f"no export of a broker: no files below {schema.EVENTS} and {schema.QUEUE_STATS}"
            raise JobRefused(f"{self.folder.name}: {text}", NO_INPUT)

    def _check_output(self) -> None:
        """Raise JobRefused if the output is no folder that this run may use: it is another one's, or not empty."""
        if self.output.is_file():
            raise JobRefused(f"{self.output.name}: is a file", NO_OUTPUT)
        if self._stream and self.state.exists():
            made_of = self.state.read_text(MARK) if self.state.exists(MARK) else ""
            if made_of == self.folder.place:
                return
            is_begun = set(self.state.names()) - {MARK, LOCK} or not self.folder.place.startswith(made_of)
            if is_begun:  # otherwise the disk was full before the first run
                raise JobRefused(f"{self.output.name}: was made of {made_of or 'no stream of this kind'}", NO_OUTPUT)
        if not is_free(self.output):
            text = "exists already, and no stream made it" if self._stream else "exists already"
            raise JobRefused(f"{self.output.name}: {text}", NO_OUTPUT)
        if self._stream:
            self.state.write_bytes(MARK, self.folder.place.encode())


def absent_names(ledger: Ledger) -> list[str]:
    """Return the selected nodes, virtual hosts and queues of which the log has neither an event nor a snapshot."""
    selection = ledger.folder.selection
    if selection.is_whole:
        return []
    rows = [*ledger.facts["kinds"].to_pylist(), *ledger.snapshots["lengths"].to_pylist()]
    there = {what: {row[what] for row in rows} for what in ("vhost", "queue")}
    there["node"] = {boot.node for boot in ledger.boots}
    chosen = {"node": selection.nodes, "vhost": selection.vhosts, "queue": selection.queues}
    return [f"{what} {name!r}" for what, names in chosen.items() for name in names if name not in there[what]]


def silent_from_us(ledger: Ledger) -> int | None:
    """Return when the first of the running brokers has been silent for too long, or None if none is running."""
    ages = ledger.input.file_ages_s()
    running = [boot for boot in ledger.boots if not (boot.stopped or boot.killed or boot.silent)]
    ends = [micros(boot.last) + (ages.get(boot.key, FILE_AGE_S) + SILENCE_S) * 1_000_000 for boot in running]
    return min(ends, default=None)


@contextmanager
def locked(state: Folder | None) -> Iterator[None]:
    """Hold the lock of a folder of this machine; there are none in an object store. Raises JobRefused."""
    if state is None or state.local is None:
        yield
        return
    file = os.open(state.local / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise JobRefused(f"{state.name}: another stream has this output", NO_OUTPUT) from None
    finally:
        os.close(file)


def opened(folder: str, status: int) -> Folder:
    """Return a folder. Raises JobRefused with this status if its URL is none."""
    try:
        return Folder(folder)
    except (OSError, ValueError) as error:
        raise JobRefused(one_line(error), status) from None


def read_old(folder: str | None) -> Values | None:
    """Return the report in a folder, to compare with. Raises JobRefused if there is none."""
    if folder is None:
        return None
    place = opened(folder, NO_INPUT)
    try:
        return parse(place.read_text(report_of(place)))
    except (OSError, ValueError, UnusableReport) as error:
        raise JobRefused(f"{place.name}: cannot be compared with: {one_line(error)}", NO_INPUT) from None


def dump(made: Values) -> str:
    """Return the content of report.json: a line for each value, and one line for the whole timeline."""
    text = json.dumps({**made, "timeline": None}, indent=1, allow_nan=False)
    timeline = json.dumps(made["timeline"], separators=(",", ":"), allow_nan=False)
    return text.replace('\n "timeline": null', f'\n "timeline": {timeline}', 1) + "\n"


def one_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def progress() -> LogProgress:
    """Return a log of the steps on stderr, with the seconds since this call."""
    started_s = time.monotonic()

    def log(step: str) -> None:
        print(f"warren analyze: {time.monotonic() - started_s:6.1f} s  {printable(step)}", file=sys.stderr, flush=True)

    return log
