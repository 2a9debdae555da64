"""The command `warren compact`. pyarrow is imported only when it runs."""

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from warren.broker.plugin import Command, command_failed
from warren.broker.system_errors import file_error

from ..file_format import schema
from ..file_format.printable import WAS, count, printable

failed = partial(command_failed, "compact")
USAGE, NO_INPUT, UNAVAILABLE, FAILED, RETRY = 64, 66, 69, 70, 75  # of sysexits.h
LOCAL = "file://"
NAMED = 10  # refused files that are printed


class Compact(Command):
    about = "merge the small files of an export, for faster reading; brokers may write to it meanwhile"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", metavar="DIR", required=True, help="the folder of the export")

    def run(self, options: Namespace) -> int:
        """Merge files. The status is 0, or one of sysexits.h."""
        if find_spec("pyarrow") is None:
            return failed("needs pyarrow: in a clone of Warren, pip install '.[analytics]'", UNAVAILABLE)
        from . import merge

        if "://" in options.input and not options.input.startswith(LOCAL):
            return failed("--input: must be a folder of this machine: files are locked and appended to", USAGE)
        if not options.input.removeprefix(LOCAL):  # which would be the working directory
            return failed("--input: names no folder", USAGE)
        folder = Path(options.input.removeprefix(LOCAL))
        try:
            if not folder.is_dir():
                return failed(f"{folder}: no such folder: name that of an export with --input", NO_INPUT)
            if not any((folder / table).is_dir() for table in schema.TABLES):
                return failed(f"{folder}: no export of a broker: it has none of {', '.join(schema.TABLES)}", NO_INPUT)
        except OSError as error:
            return failed(file_error(error), NO_INPUT)
        try:
            with merge.locked(folder):
                result = merge.compact(folder, datetime.now(UTC))
        except merge.Busy as error:
            return failed(str(error), RETRY)
        except OSError as error:
            return failed(file_error(error).splitlines()[0], FAILED)
        merged = f"{count(result.before, 'file')} with {count(result.rows, 'row')}"
        print(f"{merged} were merged into {result.after:,}")
        if result.refused:
            refused = count(len(result.refused), "file", WAS)
            names = ", ".join(map(printable, result.refused[:NAMED]))
            print(f"{refused} left out, damaged or not of the export: {names}")
        return 0
