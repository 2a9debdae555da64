"""The command `warren trace`. pyarrow is imported only when it runs."""

import json
from argparse import ArgumentParser, Namespace
from functools import partial
from importlib.util import find_spec

from warren.broker.plugin import Command, command_failed

from ..file_format.printable import count

failed = partial(command_failed, "trace")
NOT_FOUND, NO_INPUT, UNAVAILABLE, FAILED = 1, 66, 69, 70  # the other statuses are those of sysexits.h


class Trace(Command):
    about = "show the way of one message through all brokers, from what they exported"

    def add_options(self, parser: ArgumentParser) -> None:
        about = "its message_id, its identity (of federated messages), or BOOT/NUMBER as in reports"
        parser.add_argument("id", metavar="ID", help=about)
        parser.add_argument("--input", metavar="DIR", required=True, help="the folder of the export, or its URL")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, options: Namespace) -> int:
        """Print the trace. The status is 0, 1 if there is no such message, or one of sysexits.h."""
        if find_spec("pyarrow") is None:
            return failed("needs pyarrow: in a clone of Warren, pip install '.[analytics]'", UNAVAILABLE)
        import pyarrow as pa

        from . import report, search

        try:
            log = search.Log(options.input)
        except (search.NoExport, ValueError) as error:  # the latter is that of a malformed URL
            return failed(str(error).splitlines()[0], NO_INPUT)
        except OSError as error:
            return failed(str(error).splitlines()[0], FAILED)
        try:
            result = search.find(log, options.id)
            traced = report.describe(options.id, result) if result.rows else {}
        except (OSError, pa.ArrowException) as error:
            return failed(str(error).splitlines()[0], FAILED)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            return failed(f"a file has values that no broker writes: {error}", FAILED)
        if not result.rows:
            return failed(f"no message {options.id} in {count(result.files, 'file')} of {log.name}", NOT_FOUND)
        print(json.dumps(traced, indent=1) if options.json else report.text(traced))
        return 0
