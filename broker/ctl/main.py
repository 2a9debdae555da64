"""Run one command: send its requests, write the result, return an exit status of RabbitMQ's tools."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import stat
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from .. import standard_streams
from ..product import distribution_version
from ..system_errors import DEFINITIONS_LIMIT, file_error, read_text, too_long
from . import command_line, formats, report
from .answers import Answer, CommandError, Lines, Report, Rows
from .catalogue import COMMANDS
from .command import ANY_NODE, Command
from .exit_status import DATA, TIMEOUT, UNAVAILABLE, USAGE, ExitError, Unreachable
from .request import Request
from .wait import StartupWait, pid_in, wait_for_exit

if TYPE_CHECKING:
    from .node import Node

NO_ANSWER = """\
No broker answers at this socket. It may be down, or keep its data in another folder:

  --data DIR   the folder of its data; default: $RABBITMQ_MNESIA_DIR or ./data
  --url URL    its HTTP API, such as http://USER@HOST:15672"""
NO_RIGHT = "Only root and the user of the broker may use this socket: run warrenctl as one of them, or with --url."
COMPLETION = "_WARRENCTL_COMPLETE"  # set by a shell that wants to know what may follow
HTTP_TIMEOUT_S = 60.0  # of a whole command with --url, if neither --timeout nor the command sets one


class Run:
    """One command line during its execution."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.command: Command = COMMANDS[request.command]
        self.format = str(request.options.get("formatter") or self.command.format)
        if self.format == "erlang" and self.command.format == "maps":
            self.format = "maps"
        if self.format not in formats.FORMATS:
            raise ExitError(USAGE, f"Formatter '{self.format}' not found")
        self.silent = bool(request.options.get("silent"))
        # Programs read csv, so --silent keeps its headings.
        unheaded = self.silent and self.format != "csv"
        self.headings = not (unheaded or request.options.get("no-table-headers"))
        self.timeout_s = self._timeout_s()

    def _timeout_s(self) -> float | None:
        text = self.request.options.get("timeout")
        if text is None:
            return self.command.timeout_s
        try:
            seconds = float(text)
        except ValueError:
            raise ExitError(USAGE, f"timeout should be a number of seconds, actually was {text}") from None
        return seconds if 0 < seconds < 1e9 else None

    def print_line(self, text: str) -> None:
        """Print a line before or after the result, unless only the result is wanted."""
        if text and not self.silent and not self.request.options.get("quiet") and self.format not in formats.MACHINE:
            print(text)

    def banner(self) -> str:
        seconds = self.timeout_s if self.timeout_s is not None else 0.0
        text = self.command.banner
        if isinstance(text, str) and "{timeout" in text:
            timeout = f"{seconds}" if seconds else "infinity"
            for unit, shown in (("", timeout), ("_s", str(int(seconds))), ("_ms", str(int(seconds * 1000)))):
                text = text.replace(f"{{timeout{unit}}}", shown)
            return Command(self.command.usage, "", text).banner_of(self.request)
        return self.command.banner_of(self.request)

    def connect(self) -> Node:
        """Connect to the node of the command line. Raises ExitError, Unreachable, TimeoutError."""
        from .node import HTTPNode, LocalNode  # imports the HTTP client, which help does not need

        url = self.request.options.get("url")
        if url is not None:
            timeout_s = self.timeout_s if "timeout" in self.request.options else self.timeout_s or HTTP_TIMEOUT_S
            password_file = self.request.text("password-file", "")
            remote: Node = HTTPNode(str(url), self.command.name, timeout_s, password_file)
        else:
            folder = self.request.options.get("data") or os.environ.get("RABBITMQ_MNESIA_DIR") or "./data"
            remote = LocalNode(Path(str(folder)), self.timeout_s)
        wanted = self.request.text("node", "") or remote.name
        if wanted not in (remote.name, ANY_NODE, f"rabbit@{socket.gethostname()}"):
            remote.close()
            text = f"Error: unable to perform an operation on node '{wanted}': this is node '{remote.name}'"
            raise ExitError(UNAVAILABLE, text)
        self.request.node = remote.name
        return remote

    def connect_when_started(self) -> Node:
        """Wait until the node has started. Raises ExitError, TimeoutError."""
        return StartupWait(self.request, sys.argv[1:], self.timeout_s, self.print_line).connect(self.connect)

    def perform(self) -> None:
        """Run the command and print its result. Raises ExitError."""
        name = self.request.command
        if self.request.options.get("dry-run"):
            self.print_line(self.banner())
            return
        try:
            connect = self.connect_when_started if name in ("wait", "await_startup") else self.connect
            pid = pid_in(Path(self.request.arguments[0])) if name == "stop" and self.request.arguments else None
            with closing(connect()) as remote:
                if name == "report":
                    self.report(remote)
                else:
                    self.ask(remote)
                if name in ("stop", "shutdown") and not self.request.options.get("no-wait"):
                    remote.wait_for_end()
            if pid is not None:
                wait_for_exit(pid, self.timeout_s)
        except TimeoutError:
            value = int((self.timeout_s or 0) * 1000)
            node = self.request.node or self.request.text("node", ANY_NODE)
            text = f"Error: operation {name} on node {node} timed out. Timeout value used: {value}"
            raise ExitError(TIMEOUT, text) from None
        except Unreachable as error:
            if self.request.options.get("idempotent") and not (self.request.node or error.denied):
                self.print_line(f"Node {self.request.text('node', ANY_NODE)} is no longer running")
                return
            raise ExitError(UNAVAILABLE, self.unreachable(error)) from None

    def unreachable(self, error: Unreachable) -> str:
        """Return the error text: which node, at which address, and which options help."""
        if self.request.node:  # it has answered before
            return f"Error: unable to perform an operation on node '{self.request.node}': {error}"
        node = self.request.text("node", f"warren@{socket.gethostname().partition('.')[0]}")
        text = f"Error: unable to perform an operation on node '{node}': {error}"
        if "url" in self.request.options:
            return text
        return f"{text}\n\n{NO_RIGHT if error.denied else NO_ANSWER}"

    def ask(self, remote: Node) -> None:
        """Run the command on the node and print its result. Raises ExitError, Unreachable, TimeoutError."""
        arguments = self.arguments()
        try:
            answer = remote.run(Request(self.request.command, arguments, self.request.options))
        except CommandError as error:
            if not error.argument:
                self.print_line(self.banner())
            raise error_of(error, self.command) from None
        self.print_line(self.banner())
        self.write(answer)
        self.print_line(self.command.after)

    def report(self, remote: Node) -> None:
        """Run the commands of `report`; an error is printed in place of a result. Raises Unreachable, TimeoutError."""
        self.print_line(self.banner())
        try:
            answer = remote.run(Request("list_vhosts", ["name"], {}))
        except CommandError as error:
            raise error_of(error) from None
        assert isinstance(answer, Rows)
        vhosts = [str(row[0]) for row in answer.rows]
        for line in report.lines(vhosts):
            self.print_line("")
            part = Run(command_line.parse(line))
            part.request.node = remote.name
            try:
                part.ask(remote)
            except ExitError as error:
                print(error.text)

    def arguments(self) -> list[str]:
        """Return the arguments, including a password or file contents that have to be read. Raises ExitError."""
        arguments = self.request.arguments
        if self.request.command == "add_user" and len(arguments) == 1:
            return [*arguments, password()]
        definitions = self.request.command in ("export_definitions", "import_definitions")
        if definitions and self.request.text("format", "json").lower() != "json":
            text = command_line.complaint("Bad argument: Format should be json", sys.argv[1:], self.command)
            raise ExitError(DATA, text)
        if self.request.command == "export_definitions":
            return []
        if self.request.command == "import_definitions":
            return [text_of(arguments[0] if arguments else "-", self.command)]
        return arguments

    def write(self, answer: Answer) -> None:
        """Print an answer. Raises ExitError, Unreachable, TimeoutError."""
        if isinstance(answer, Rows):
            formats.FORMATS[self.format](answer.columns, map(list, answer.rows), self.headings, sys.stdout)
        elif isinstance(answer, Lines):
            for line in answer.lines:
                print(line, flush=True)
        elif isinstance(answer, Report):
            self.write_value(answer.value, answer.text)
        elif answer is not None:
            self.write_value(answer, None)
        elif self.format == "json":
            print(formats.compact({"result": "ok", "node": self.request.node}))

    def write_value(self, value: object, text: str | None) -> None:
        """Print a value in the chosen format; `text` is its form for people, None to derive it."""
        if self.request.command == "export_definitions":
            save(self.request.arguments[0], value)
        elif self.format == "json":
            print(formats.json_of(value))
        elif self.format == "erlang":
            print(formats.term(value))
        else:
            text = formats.text_of(value) if text is None else text
            if text:
                print(text)


def error_of(error: CommandError, command: Command | None = None) -> ExitError:
    """Return the exit for a refused command; `command` gives the usage to print with a bad argument."""
    if error.argument:
        return ExitError(error.status, command_line.complaint(error.text, sys.argv[1:], command))
    return ExitError(error.status, error.text if error.bare else f"Error:\n{error.text}")


def password() -> str:
    """Read a password; a blank line is an empty one. Raises ExitError."""
    try:
        given = standard_input()
        if given.isatty():
            from getpass import getpass

            return getpass("Password: ")
        line = given.readline()
    except UnicodeDecodeError as error:
        raise ExitError(DATA, f"Error:\nPassword is not {error.encoding}, the encoding of the locale") from None
    except (OSError, EOFError):
        line = ""
    if not line:
        raise ExitError(DATA, "Error:\nPassword is not provided via argument or stdin")
    return line.rstrip("\n")


def standard_input() -> TextIO:
    """Return the standard input. Raises OSError."""
    given: TextIO | None = sys.stdin
    if given is None:  # it was closed before the start
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return given


def text_of(name: str, command: Command) -> str:
    """Read a file, or the standard input for "-". Raises ExitError."""
    shown = "standard input" if name == "-" else name
    try:
        if name == "-":
            given = standard_input()
            if isinstance(given, io.TextIOWrapper):
                given.reconfigure(encoding="utf-8-sig", errors="strict")  # whatever the locale has
            text = given.read(DEFINITIONS_LIMIT + 1)
            if len(text) > DEFINITIONS_LIMIT:
                raise too_long(shown, DEFINITIONS_LIMIT)
            return text
        return read_text(name, "utf-8-sig", limit=DEFINITIONS_LIMIT)
    except FileNotFoundError:
        text = command_line.complaint(f"Bad argument: File {name} does not exist", sys.argv[1:], command)
        raise ExitError(DATA, text) from None
    except OSError as error:
        raise ExitError(UNAVAILABLE, f"Error:\ncannot read {file_error(error, shown)}") from None
    except UnicodeDecodeError:
        raise ExitError(DATA, f"Error:\ncannot read {shown}: not UTF-8, as JSON has to be") from None


def save(name: str, value: object) -> None:
    """Write JSON to a file or the standard output. Raises ExitError."""
    text = json.dumps(value, ensure_ascii=False) + "\n"
    if standard_streams.is_output(name):
        sys.stdout.write(text)
        return
    try:
        write(Path(name), text)
    except OSError as error:
        error.filename = name  # not that of the new file beside it
        raise ExitError(UNAVAILABLE, f"Error:\ncannot write {file_error(error)}") from None


def write(file: Path, text: str) -> None:
    """Write a file, which keeps its former content unless all of the new one is stored. Raises OSError.

    A link is followed, as by RabbitMQ. What is no file, such as a pipe, and a file in a folder without the right to
    create others are written directly.
    """
    from tempfile import mkstemp  # here: other commands do not need it

    data = text.encode("utf-8", "backslashreplace")
    place = Path(os.path.realpath(file))
    parts = Path(os.path.abspath(file)).parts
    system = parts[1:2] in (("dev",), ("proc",)) and parts[2:3] != ("shm",)  # /dev/stdout is a link to a file
    if system or (place.exists() and not place.is_file()) or not os.access(place.parent, os.W_OK | os.X_OK):
        file.write_bytes(data)
        return
    former = place.stat() if place.exists() else None
    descriptor, new = mkstemp(".new", ".", place.parent)  # mode 0600: it has hashes of passwords
    try:
        with open(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            if former is None:
                os.fchmod(descriptor, 0o666 & ~umask())
            else:
                with suppress(PermissionError):  # only root may give it to the former owner
                    os.fchown(descriptor, former.st_uid, former.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(former.st_mode))
            os.fsync(descriptor)
        os.replace(new, place)
    finally:
        Path(new).unlink(missing_ok=True)  # there is none if it has replaced the former one


def umask() -> int:
    """Return the mask of the process for the modes of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def run(line: list[str]) -> int:
    """Parse and run one command line; return the exit status. Raises ExitError."""
    try:
        request = command_line.parse(line)
    except command_line.BadCommandLine as error:
        raise ExitError(USAGE, str(error)) from None
    options = request.options
    if options.get("version"):
        print(f"{command_line.program()} {distribution_version()}")
    elif not request.command:
        print(command_line.help_of_all())
        return 0 if options.get("help") else USAGE
    elif options.get("help"):
        print(command_line.help_of(COMMANDS[request.command]))
    elif request.command == "version":
        print(distribution_version())
    elif request.command == "ping" and str(options.get("url")).startswith("amqp:"):
        from .amqp_ping import ping

        return ping(str(options["url"]))
    else:
        Run(request).perform()
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
