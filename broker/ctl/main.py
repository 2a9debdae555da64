"""Run one command: send its requests, write the result, return an exit status of RabbitMQ's tools."""

from __future__ import annotations

import io
import os
import sys
from contextlib import closing
from pathlib import Path

from .. import standard_streams
from ..product import distribution_version
from ..system_errors import user_name
from . import command_line, formats
from .call import Call
from .command import ANY_NODE, Command
from .commands import COMMANDS
from .commands.status import report_lines
from .errors import TIMEOUT, UNAVAILABLE, USAGE, APIError, CommandError, ExitError, Unreachable
from .wait import connect_when_started, pid_in, wait_for_exit

NO_ANSWER = """\
No broker answers at this socket. It may be down, or keep its data in another folder:

  --data DIR   the folder of its data; default: $RABBITMQ_MNESIA_DIR or ./data
  --url URL    its HTTP API, such as http://USER@HOST:15672"""
NO_RIGHT = (
    "Only root and the user of the broker{owner} may use this socket: run `sudo{user} warrenctl ...`, or use --url."
)
COMPLETION = "_WARRENCTL_COMPLETE"  # set by a shell that wants to know what may follow
TERMINAL_FOR = ("table", "maps")  # formats of commands that a person at a terminal does not read well
HTTP_TIMEOUT_S = 60.0  # of a whole command with --url, if neither --timeout nor the command sets one


class Run:
    """One command line during its execution."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.command: Command = COMMANDS[call.command]
        self.format = call.text("formatter") or self.command.format
        if "formatter" not in call.options and self.format in TERMINAL_FOR and sys.stdout.isatty():
            self.format = "terminal"
        call.terminal = self.format == "terminal"
        if self.format == "erlang" and self.command.format == "maps":
            self.format = "maps"
        if self.format not in formats.FORMATS:
            raise ExitError(USAGE, f"Formatter '{self.format}' not found")
        self.silent = call.flag("silent")
        # Programs read csv, so --silent keeps its headings.
        unheaded = self.silent and self.format != "csv"
        self.headings = not (unheaded or call.flag("no-table-headers"))
        self.timeout_s = self._timeout_s()

    def _timeout_s(self) -> float | None:
        text = self.call.options.get("timeout")
        if text is None:
            return self.command.timeout_s
        try:
            seconds = float(text)
        except ValueError:
            raise ExitError(USAGE, f"timeout should be a number of seconds, actually was {text}") from None
        return seconds if 0 < seconds < 1e9 else None

    def print_line(self, text: str) -> None:
        """Print a line before or after the result, unless only the result is wanted."""
        if text and not self.silent and not self.call.flag("quiet") and self.format not in formats.MACHINE:
            print(text)

    def print_banner(self) -> None:
        self.print_line(self.command.banner_of(self.call, self.timeout_s))

    def connect(self) -> None:
        """Connect to the node of the command line. Raises ExitError, Unreachable, TimeoutError."""
        from . import node  # imports the HTTP client, which help does not need

        url = self.call.options.get("url")
        if url is not None:
            timeout_s = self.timeout_s if "timeout" in self.call.options else self.timeout_s or HTTP_TIMEOUT_S
            node.connect_to_url(self.call, str(url), timeout_s, self.call.text("password-file"))
        else:
            node.connect_to_socket(self.call, self.call.folder, self.timeout_s)
        wanted = self.call.text("node") or self.call.node
        if wanted not in (self.call.node, ANY_NODE, f"rabbit@{os.uname().nodename}"):
            self.call.api.close()
            text = f"Error: unable to perform an operation on node '{wanted}': this is node '{self.call.node}'"
            raise ExitError(UNAVAILABLE, text)

    def perform(self) -> None:
        """Run the command and print its result. Raises ExitError."""
        call, name = self.call, self.call.command
        if call.flag("dry-run"):
            self.print_banner()
            return
        try:
            pid = pid_in(Path(call.arguments[0])) if name == "stop" and call.arguments else None
            if name in ("wait", "await_startup"):
                connect_when_started(call, self.timeout_s, self.print_line, self.connect)
            else:
                self.connect()
            with closing(call.api):
                waits = name in ("stop", "shutdown") and not call.flag("no-wait")
                if waits:
                    pid = pid or call.api.server_pid()
                if name == "report":
                    self.report()
                else:
                    self.ask()
                if waits:
                    call.api.wait_for_end()
            if pid is not None:
                wait_for_exit(pid, self.timeout_s)
        except CommandError as error:
            raise exit_of(error, self.command) from None
        except TimeoutError:
            value = int((self.timeout_s or 0) * 1000)
            text = f"Error: operation {name} {self.where()} timed out. Timeout value used: {value}"
            raise ExitError(TIMEOUT, text) from None
        except Unreachable as error:
            if call.flag("idempotent") and not (call.node or error.denied):
                self.print_line(f"Node {call.text('node', ANY_NODE)} is no longer running")
                return
            raise ExitError(UNAVAILABLE, self.unreachable(error)) from None

    def where(self, quote: str = "") -> str:
        """Return the node as errors name it; the name of one at a URL is not known before it answers."""
        node = self.call.node or self.call.text("node")
        if not node and "url" in self.call.options:
            return "on the broker of --url"
        own = os.uname().nodename.partition(".")[0]
        return f"on node {quote}{node or f'warren@{own}'}{quote}"

    def unreachable(self, error: Unreachable) -> str:
        """Return the error text: which node, at which address, and which options help."""
        where = self.where("'")
        text = f"Error: unable to perform an operation {where}: {error}"
        if self.call.node or "url" in self.call.options:  # a node with a name has answered before
            return text
        return f"{text}\n\n{self.no_right() if error.denied else NO_ANSWER}"

    def no_right(self) -> str:
        """Return who may use the socket of the data folder."""
        try:
            name = user_name(os.stat(self.call.folder).st_uid)
        except OSError:
            return NO_RIGHT.format(owner="", user="")
        return NO_RIGHT.format(owner=f", {name},", user=f" -u {name}")

    def answer(self) -> formats.Answer:
        """Return the answer of the command. Raises CommandError, ExitError, Unreachable, TimeoutError."""
        from .node import reason_of

        try:
            return self.command.answer(self.call)
        except APIError as error:
            raise CommandError(UNAVAILABLE, reason_of(error)) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            text = f"the answer is not one of RabbitMQ's HTTP API: {type(error).__name__}"
            raise CommandError(UNAVAILABLE, text) from None

    def ask(self) -> None:
        """Run the command on the node and print its result. Raises ExitError, Unreachable, TimeoutError."""
        try:
            answer = self.answer()
        except CommandError as error:
            if not error.argument:
                self.print_banner()
            raise exit_of(error, self.command) from None
        self.print_banner()
        self.write(answer)
        self.print_line(self.command.after)

    def report(self) -> None:
        """Print the results of `report`, or errors in their place. Raises CommandError, Unreachable, TimeoutError."""
        self.print_banner()
        vhosts = self.part(["list_vhosts", "name"]).answer()
        assert isinstance(vhosts, formats.Rows)
        for line in report_lines([str(row[0]) for row in vhosts.rows]):
            self.print_line("")
            try:
                self.part(line).ask()
            except ExitError as error:
                print(error.text)

    def part(self, line: list[str]) -> Run:
        """Return the run of another command line on the same node."""
        call = command_line.parse(line)
        call.api, call.node, call.default_vhost = self.call.api, self.call.node, self.call.default_vhost
        return Run(call)

    def write(self, answer: formats.Answer) -> None:
        """Print an answer. Raises ExitError, Unreachable, TimeoutError."""
        if isinstance(answer, formats.Rows):
            formats.FORMATS[self.format](answer.columns, map(list, answer.rows), self.headings, sys.stdout)
        elif isinstance(answer, formats.Lines):
            for line in answer.lines:
                print(line, flush=True)
        elif answer is None:
            if self.format == "json":
                print(formats.compact({"result": "ok", "node": self.call.node}))
        else:
            text, value = answer if isinstance(answer, formats.Report) else (formats.text_of(answer), answer)
            if self.format == "json":
                print(formats.json_of(value))
            elif self.format == "erlang":
                print(formats.term(value))
            elif text:
                print(text)


def exit_of(error: CommandError, command: Command) -> ExitError:
    """Return the exit for a failed command, with its usage if an argument is wrong."""
    if error.argument:
        return ExitError(error.status, command_line.complaint(error.text, sys.argv[1:], command))
    return ExitError(error.status, error.text if error.bare else f"Error:\n{error.text}")


def run(line: list[str]) -> int:
    """Parse and run one command line; return the exit status. Raises ExitError."""
    try:
        call = command_line.parse(line)
    except command_line.BadCommandLine as error:
        raise ExitError(USAGE, str(error)) from None
    if call.flag("version"):
        print(f"{command_line.program()} {distribution_version()}")
    elif not call.command:
        print(command_line.help_of_all())
        return 0 if call.flag("help") else USAGE
    elif call.flag("help"):
        print(command_line.help_of(COMMANDS[call.command]))
    elif call.command == "version":
        print(distribution_version())
    elif call.command == "ping" and call.text("url").startswith("amqp:"):
        from .amqp_ping import ping

        return ping(call.text("url"), call.text("password-file"))
    else:
        Run(call).perform()
    return 0


def main() -> int:
    """The entry point of `warrenctl`: return the exit status."""
    return standard_streams.run(command_line.program(), run_process)


def run_process() -> int:
    """Run the command line of the process; return the exit status. Raises OutputError."""
    completing = os.environ.get(COMPLETION)
    if completing:
        from .completion import complete

        return complete(COMPLETION, completing)
    if isinstance(sys.stdout, io.TextIOWrapper):  # surrogates, which JSON may have, as JSON writes them
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        return run(sys.argv[1:])
    except ExitError as error:
        try:
            sys.stdout.flush()
        finally:
            print(error.text, file=sys.stderr)
        return error.status
