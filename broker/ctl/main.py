"""Runs one command: asks the node, writes what it answers; the exit statuses are those of RabbitMQ's tools."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from . import command_line, formats, report
from .answers import Answer, Lines, Refused, Report, Rows
from .catalogue import COMMANDS
from .command import ANY_NODE, Command, Request
from .exit_status import DATA_STATUS, TIMEOUT_STATUS, UNAVAILABLE_STATUS, USAGE_STATUS, Failed, Unreachable
from .question import Question
from .wait import Waiting

if TYPE_CHECKING:
    from .node import Node

NOBODY_ANSWERS = """\
No broker answers at this socket. It may be down, or keep its data in another folder:

  --data DIR   the folder of its data; default: $RABBITMQ_MNESIA_DIR or ./data
  --url URL    its HTTP API, such as http://USER@HOST:15672"""
OWN_OPTIONS = ("data", "timeout", "url", "password-file")  # that say where and how to ask, and nothing to the node
HTTP_TIMEOUT_S = 60.0  # for all of a command by --url, where neither --timeout nor the command says how long


class Run:
    """One command line, being carried out."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.command: Command = COMMANDS[request.command]
        self.format = str(request.options.get("formatter") or self.command.format)
        if self.format == "erlang" and self.command.format == "maps":
            self.format = "maps"
        if self.format not in formats.FORMATS:
            raise Failed(USAGE_STATUS, f"Formatter '{self.format}' not found")
        self.silent = bool(request.options.get("silent"))
        # As csv is read by programs, --silent leaves its headings there.
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
            raise Failed(USAGE_STATUS, f"timeout should be a number of seconds, actually was {text}") from None
        return seconds if 0 < seconds < 1e9 else None

    def say(self, text: str) -> None:
        """A line around the result, for people."""
        if text and not self.silent and not self.request.options.get("quiet") and self.format not in formats.MACHINE:
            print(text)

    def banner(self) -> str:
        seconds = self.timeout_s if self.timeout_s is not None else 0.0
        text = self.command.banner
        if isinstance(text, str) and "{timeout" in text:
            timeout = f"{seconds}" if seconds else "infinity"
            text = text.replace("{timeout}", timeout).replace("{timeout_ms}", str(int(seconds * 1000)))
            return Command(self.command.usage, "", text).banner_of(self.request)
        return self.command.banner_of(self.request)

    def connect(self) -> Node:
        """Raises Failed, Unreachable, TimeoutError."""
        from .node import HTTPNode, LocalNode  # with the library of HTTP, which help does not need

        url = self.request.options.get("url")
        if url is not None:
            timeout_s = self.timeout_s if "timeout" in self.request.options else self.timeout_s or HTTP_TIMEOUT_S
            password_file = self.request.option("password-file", "")
            remote: Node = HTTPNode(str(url), self.command.name, timeout_s, password_file)
        else:
            folder = self.request.options.get("data") or os.environ.get("RABBITMQ_MNESIA_DIR") or "./data"
            remote = LocalNode(Path(str(folder)), self.timeout_s)
        wanted = self.request.option("node", "") or remote.name
        if wanted not in (remote.name, ANY_NODE, f"rabbit@{socket.gethostname()}"):
            remote.close()
            text = f"Error: unable to perform an operation on node '{wanted}': this is node '{remote.name}'"
            raise Failed(UNAVAILABLE_STATUS, text)
        self.request.node = remote.name
        return remote

    def connect_when_started(self) -> Node:
        """Raises Failed, TimeoutError."""
        return Waiting(self.request, sys.argv[1:], self.timeout_s, self.say).connected(self.connect)

    def perform(self) -> None:
        """Raises Failed."""
        name = self.request.command
        if self.request.options.get("dry-run"):
            self.say(self.banner())
            return
        try:
            connect = self.connect_when_started if name in ("wait", "await_startup") else self.connect
            with closing(connect()) as remote:
                if name == "report":
                    self.report(remote)
                else:
                    self.ask(remote)
                if name in ("stop", "shutdown"):
                    remote.wait_for_end()
        except TimeoutError:
            value = int((self.timeout_s or 0) * 1000)
            node = self.request.node or self.request.option("node", ANY_NODE)
            text = f"Error: operation {name} on node {node} timed out. Timeout value used: {value}"
            raise Failed(TIMEOUT_STATUS, text) from None
        except Unreachable as error:
            raise Failed(UNAVAILABLE_STATUS, self.unreachable(error)) from None

    def unreachable(self, error: Unreachable) -> str:
        """Say which node was looked for where, and what can be done."""
        if self.request.node:  # it has answered before
            return f"Error: unable to perform an operation on node '{self.request.node}': {error}"
        node = self.request.option("node", f"warren@{socket.gethostname().partition('.')[0]}")
        text = f"Error: unable to perform an operation on node '{node}': {error}"
        if "url" in self.request.options:
            return text
        return f"{text}\n\n{NOBODY_ANSWERS}"

    def ask(self, remote: Node) -> None:
        """Raises Failed, Unreachable, TimeoutError."""
        arguments = self.arguments()
        options = {name: value for name, value in self.request.options.items() if name not in OWN_OPTIONS}
        try:
            answer = remote.ask(Question(self.request.command, arguments, options))
        except Refused as error:
            if not error.argument:
                self.say(self.banner())
            raise refusal(error, self.command) from None
        self.say(self.banner())
        self.write(answer)
        self.say(self.command.after)

    def report(self, remote: Node) -> None:
        """What cannot be told is told of in its place. Raises Unreachable, TimeoutError."""
        self.say(self.banner())
        try:
            answer = remote.ask(Question("list_vhosts", ["name"], {}))
        except Refused as error:
            raise refusal(error) from None
        assert isinstance(answer, Rows)
        vhosts = [str(row[0]) for row in answer.rows]
        for line in report.lines(vhosts):
            self.say("")
            part = Run(command_line.parse(line))
            part.request.node = remote.name
            try:
                part.ask(remote)
            except Failed as error:
                print(error.text)

    def arguments(self) -> list[str]:
        """With what is to be read from elsewhere in its place. Raises Failed."""
        arguments = self.request.arguments
        if self.request.command == "add_user" and len(arguments) == 1:
            return [*arguments, password()]
        if self.request.command == "export_definitions":
            return []
        if self.request.command == "import_definitions":
            return [text_of(arguments[0] if arguments else "-", self.command)]
        return arguments

    def write(self, answer: Answer) -> None:
        """Print what the node answered. Raises Failed, Unreachable, TimeoutError."""
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
        """Print a value; `text` is it for people, or None to make that of the value."""
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


def refusal(error: Refused, command: Command | None = None) -> Failed:
    """`command` is the one whose usage follows where the arguments are wrong."""
    if error.argument:
        return Failed(error.status, command_line.complaint(error.text, sys.argv[1:], command))
    return Failed(error.status, error.text if error.bare else f"Error:\n{error.text}")


def password() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Password: ")
    return sys.stdin.readline().rstrip("\n")


def text_of(name: str, command: Command) -> str:
    """Raises Failed."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = command_line.complaint(f"Bad argument: File {name} does not exist", sys.argv[1:], command)
        raise Failed(DATA_STATUS, text) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(UNAVAILABLE_STATUS, f"Error:\ncannot read {name}: {error}") from None


def save(name: str, value: object) -> None:
    """Raises Failed."""
    text = json.dumps(value, ensure_ascii=False) + "\n"
    try:
        if name == "-":
            sys.stdout.write(text)
        else:
            Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(UNAVAILABLE_STATUS, f"Error:\ncannot write {name}: {error}") from None


def version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warrenmq")
    except PackageNotFoundError:
        return "of a source tree that is not installed"


def run(line: list[str]) -> int:
    """Raises Failed."""
    try:
        request = command_line.parse(line)
    except command_line.Wrong as error:
        raise Failed(USAGE_STATUS, str(error)) from None
    options = request.options
    if options.get("version"):
        print(f"warrenctl {version()}")
    elif not request.command:
        print(command_line.help_of_all())
        return 0 if options.get("help") else USAGE_STATUS
    elif options.get("help"):
        print(command_line.help_of(COMMANDS[request.command]))
    elif request.command == "version":
        print(version())
    elif request.command == "ping" and str(options.get("url")).startswith("amqp:"):
        from .amqp_ping import ping

        return ping(str(options["url"]))
    else:
        Run(request).perform()
    return 0


def main() -> int:
    """The exit status."""
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
        return status
    except Failed as error:
        sys.stdout.flush()
        print(error.text, file=sys.stderr)
        return error.status
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
