"""The command `warren analyze`, which makes reports from an export. Spark is imported only when it runs.

The same for spark-submit, which brings its own Spark and master: `spark-submit submit.py --input ... --output ...`.
"""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import sys
import traceback
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from warren.broker.plugin import Command, command_failed

from .analysis.java_check import java_fault
from .file_format.printable import printable

if TYPE_CHECKING:
    from .analysis.engine import Engine


def failed(text: str, status: int) -> int:
    """Print why the command failed, and return its exit status."""
    return command_failed("analyze", printable(text), status)


USAGE, UNAVAILABLE, FAILED = 64, 69, 70  # of sysexits.h
# The exit status by the status of the verdict (`analysis.verdict`), and the least that --fail-on reports.
STATUS = {"balanced": 0, "imbalanced": 1, "incomplete": 2, "sampled": 2}
FAIL_ON = {"imbalanced": ("imbalanced",), "incomplete": ("imbalanced", "incomplete", "sampled"), "never": ()}
NEEDED = ("pyarrow", "numpy")
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # a variable that spark-submit sets
SPARK_HOSTS = r"spark://[^,\s]+:\d+(,[^,\s]+:\d+)*"
MASTER = re.compile(
    rf"local|local\[([1-9]\d*|\*)( *, *\d+)?\]|local-cluster\[.+\]|yarn|{SPARK_HOSTS}|(?!spark:)[a-z][a-z0-9]*://.+"
)
MEMORY = re.compile(r"\d+[kmgt]?", re.IGNORECASE)  # the form of Java's own option
LOCAL = "file://"
NO_START = "Spark did not start, for the reason above: check --master, --driver-memory and --conf"
AGO = re.compile(r"(\d+)([smhd])")
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
PARTS = {"node": "node", "vhost": "virtual host", "queue": "queue"}
SHOWN = 10  # of what is wrong now that are printed
CHATTY = ("py4j", "root")  # log exceptions that are reported


class Analyze(Command):
    about = "make reports of what brokers exported: where every message went, how fast, and whether any is missing"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", metavar="DIR", required=True, help="the folder of the export")
        parser.add_argument("--output", metavar="DIR", required=True, help="the folder to make, with index.html in it")
        parser.add_argument(
            "--master", metavar="URL", type=master, help="a Spark cluster; default: all cores of this machine"
        )
        about = "memory of the driver's Java, such as 2g; default: 640m"
        parser.add_argument("--driver-memory", metavar="SIZE", type=memory, help=about)
        for name, about in (("--since", "analyse only what happened from"), ("--until", "only what happened before")):
            about += " TIME: ISO 8601 in UTC, or a time ago such as 90m, 6h, 2d"
            parser.add_argument(name, metavar="TIME", type=moment, help=about)
        for name in ("node", "vhost", "queue"):
            about = f"analyse only this {PARTS[name]}; may be repeated"
            parser.add_argument(f"--{name}", metavar="NAME", action="append", default=[], help=about)
        about = "a setting of Spark, which prevails over those of the job; may be repeated"
        parser.add_argument("--conf", metavar="KEY=VALUE", type=setting, action="append", default=[], help=about)
        about = "add the files that are new since the last run with the same output, and renew the reports"
        parser.add_argument("--stream", action="store_true", help=about)
        about = "with --stream: run until stopped, and look for new files at this interval"
        parser.add_argument("--every", metavar="SECONDS", type=interval, help=about)
        about = "read the files in this process, without Spark and Java: for a quick look at a log of this machine"
        parser.add_argument("--in-process", action="store_true", help=about)
        about = "an earlier report, whose totals, rates and latencies are compared with these"
        parser.add_argument("--compare", metavar="REPORT", help=about)
        about = "the verdict from which on the exit status is not 0: 1 imbalanced, 2 incomplete or sampled (default)"
        parser.add_argument("--fail-on", choices=FAIL_ON, default="incomplete", help=about)

    def run(self, options: Namespace) -> int:
        fault = contradiction(options)
        if fault:
            return failed(fault, USAGE)
        fault = missing(options.in_process)
        if fault:
            return failed(fault, UNAVAILABLE)
        return analyze(options)


def moment(text: str) -> datetime:
    """Parse a time: ISO 8601, in UTC unless it has an offset, or a time ago."""
    ago = AGO.fullmatch(text)
    try:
        if ago is not None:
            return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * UNITS_S[ago[2]])
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(f"{text!r} is no time") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def interval(text: str) -> float:
    """Parse an interval in seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def master(text: str) -> str:
    """Check the form of the URL of a Spark cluster, which Java reports with a stack trace."""
    if not MASTER.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is none of local[N], spark://HOST:PORT, k8s://URL and yarn")
    return text


def memory(text: str) -> str:
    """Check the form of a size of Java's memory."""
    if not MEMORY.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is no size such as 512m or 2g")
    return text


FORMS = {"spark.master": master, "spark.driver.memory": memory}


def setting(text: str) -> tuple[str, str]:
    """Parse a setting of Spark."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        return name, FORMS[name](value) if name in FORMS else value
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{name}: {error}") from None


def contradiction(options: Namespace) -> str:
    """Return the conflict between options in one line, or an empty string."""
    for option in ("input", "output", "compare"):
        if getattr(options, option) in ("", LOCAL):
            return f"--{option} names no folder"
    if options.every is not None and not options.stream:
        return "--every is the interval of --stream, which is not given"
    if options.in_process and (options.master or options.driver_memory or options.conf):
        return "--in-process runs without Spark, which --master, --driver-memory and --conf are for"
    if options.stream and (options.since or options.until or options.node or options.vhost or options.queue):
        return "--stream reports on everything: --since, --until, --node, --vhost and --queue cannot be given with it"
    if options.since and options.until and options.since >= options.until:
        return "--since is not before --until"
    return ""


def missing(in_process: bool = False) -> str:
    """Return the missing requirement of the job in one line, or an empty string."""
    lacking = [name for name in (*NEEDED, *(() if in_process else ("pyspark",))) if find_spec(name) is None]
    if lacking:
        return f"needs {' and '.join(lacking)}: in a clone of Warren, pip install '.[analytics]'"
    return "" if in_process or SUBMITTED in os.environ else java_fault()


def analyze(options: Namespace) -> int:
    """Run the job and return the exit status."""
    from .analysis import job
    from .analysis.selection import Selection

    signal.signal(signal.SIGTERM, interrupted)
    progress = job.progress()
    names = [tuple(each) for each in (options.node, options.vhost, options.queue)]
    selection = Selection(options.since, options.until, *names)
    try:
        made = job.Job(options.input, options.output, progress, selection, options.compare, options.stream)
        report = made.unchanged() if options.every is None else None
        if report is None:
            with engine(options, progress) as started:
                if options.every is not None:
                    made.follow(started, options.every)
                report = made.run(started)
    except job.JobRefused as refused:
        return failed(str(refused), refused.status)
    except job.FAILURES as error:
        return failed(job.one_line(error), FAILED)
    except KeyboardInterrupt:
        return failed("stopped", 128 + signal.SIGTERM)
    except Exception:
        traceback.print_exc()
        return FAILED  # Python's default status 1 is a verdict
    progress(f"done: {made.output.name}/index.html")
    for line in headlines(report):
        print(f"warren analyze: {printable(line)}", file=sys.stderr)
    return exit_status(report["conservation"]["status"], options.fail_on)


def headlines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the last lines of a run: what is wrong now, and the verdict, with commands that trace examples."""
    from .analysis.health import trace_command

    wrong = report["wrong_now"][:SHOWN]
    if not wrong:
        yield report["health"]["sentence"]
    for row in wrong:
        trace = trace_command(row["message"], report["input"]["folder"])
        yield f"wrong now: {row['line']}{f': {trace}' if trace is not None else ''}"
    more = report["rows"]["wrong_now"] - len(wrong)
    if more:
        yield f"wrong now: {more:,} more, in report.json"
    for row in report["lost"][:1]:
        yield f"lost, for example: {trace_command(row['message'], report['input']['folder'])}"
    yield report["verdict"]


@contextmanager
def engine(options: Namespace, progress: Callable[[str], None]) -> Iterator[Engine]:
    """Start the engine. Raises OSError if Spark does not start."""
    from .analysis.engine import InProcess, Spark

    if options.in_process:
        yield InProcess()
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from .analysis.session import session

    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    progress("start Spark")
    with ExitStack() as stack:
        try:
            spark = stack.enter_context(session(options.master, options.driver_memory, dict(options.conf)))
        except (Py4JError, PySparkException):
            raise OSError(NO_START) from None
        try:
            yield Spark(spark)
        except (Py4JError, PySparkException) as error:
            raise OSError(str(error)) from None


def exit_status(verdict: str, fail_on: str) -> int:
    """Return the exit status for the status of a verdict."""
    return STATUS[verdict] if verdict in FAIL_ON[fail_on] else 0


def interrupted(signal_number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM like ^C: end the run and remove what it began."""
    raise KeyboardInterrupt


class Parser(ArgumentParser):
    """A parser with the exit status of sysexits.h, as 2 is a verdict."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with arguments that do not include `warren analyze`."""
    command = Analyze()
    parser = Parser(prog="analyze", description=command.about, allow_abbrev=False)
    command.add_options(parser)
    return command.run(parser.parse_args(arguments))
