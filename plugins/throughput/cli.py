"""The command `warren analyze`, which makes reports from an export. Spark is imported only when it runs.

The same for spark-submit, which brings its own Spark and master: `spark-submit submit.py --input ... --output ...`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType

from warren.broker.plugin import Command

from .analysis.java_check import java_fault

UNAVAILABLE, FAILED = 69, 70  # EX_UNAVAILABLE and EX_SOFTWARE of sysexits.h
NEEDED = ("pyspark", "plotly")
CHATTY = (
    "py4j",
    "DataFrameQueryContextLogger",
    "SQLQueryContextLogger",
)  # log exceptions that are reported


class Analyze(Command):
    about = "make reports of what brokers exported: where every message went, how fast, and whether any is missing"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", metavar="DIR", required=True, help="the folder of the export")
        parser.add_argument("--output", metavar="DIR", required=True, help="the folder to make, with index.html in it")
        parser.add_argument("--master", metavar="URL", help="a Spark cluster; default: all cores of this machine")
        about = "add the files that are new since the last run with the same output, and renew the reports"
        parser.add_argument("--stream", action="store_true", help=about)
        about = "with --stream: run until stopped, and look for new files at this interval"
        parser.add_argument("--every", metavar="SECONDS", type=float, help=about)

    def run(self, options: Namespace) -> int:
        fault = missing()
        if fault:
            return failed(fault, UNAVAILABLE)
        return analyze(options)


def missing() -> str:
    """Return what the job needs and does not find, in one line, or an empty string."""
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if lacking:
        return f"needs {' and '.join(lacking)}: in a clone of Warren, pip install '.[analytics]'"
    return "" if "PYSPARK_GATEWAY_PORT" in os.environ else java_fault()


def analyze(options: Namespace) -> int:
    """Run the job and return the exit status."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from .analysis import job, streaming
    from .analysis.input_files import DamagedFile
    from .analysis.spark_session import builder

    signal.signal(signal.SIGTERM, interrupted)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    progress = job.Progress()
    try:
        progress("start Spark")
        spark = builder(options.master).getOrCreate()
        try:
            if options.stream:
                streaming.follow(spark, options.input, options.output, options.every, progress)
            else:
                job.batch(spark, options.input, options.output, progress)
        finally:
            spark.stop()
    except job.JobRefused as refused:
        return failed(str(refused), refused.status)
    except (OSError, DamagedFile, Py4JError, PySparkException) as error:
        return failed(job.one_line(error), FAILED)
    except KeyboardInterrupt:
        return failed("stopped", 128 + signal.SIGTERM)
    progress(f"done: {options.output}/index.html")
    return 0


def interrupted(signal_number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM like ^C: end the run and remove what it began."""
    raise KeyboardInterrupt


def failed(text: str, status: int) -> int:
    print(f"warren analyze: {text}", file=sys.stderr)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with arguments that do not include `warren analyze`."""
    command = Analyze()
    parser = ArgumentParser(prog="analyze", description=command.about, allow_abbrev=False)
    command.add_options(parser)
    return command.run(parser.parse_args(arguments))
