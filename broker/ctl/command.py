"""A command of `warrenctl`: one row with its usage, help, banner, columns, and the function that answers it.

    USERS("delete_user <username>: Removes a user", 'Deleting user "{0}" ...', send("DELETE", "users/{0}"))

The usage, before the colon, is what the help prints and what command lines are parsed by. It has the options, such as
[--if-empty] and [--priority <priority>], and then the arguments: <name>, [<name>], <name>...
"""

import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from .call import Call, Item
from .errors import USAGE, CommandError
from .formats import Answer, Rows

ANY_NODE = "rabbit@localhost"  # accepted for every node
SHORT = {"vhost": "-p", "if-empty": "-e", "if-unused": "-u", "pid": "-P", "number": "-N", "duration": "-d", "all": "-a"}

# Parts of many usages
V = "[--vhost <vhost>]"
LISTING = "[--no-table-headers]"
COLUMNS = f"{LISTING} [<column>, ...]"

OPTION = re.compile(r"\[--([a-z-]+)( <[^>]+>)?\]")
ARGUMENT = re.compile(r"(\[?)<([^>]+)>(, \.\.\.|\.\.\.)?")

Handler = Callable[[Call], Answer]
Banner = str | Callable[[Call], str]
Columns = dict[str, Callable[[Item], Any]]


def options_in(usage: str) -> dict[str, str]:
    """Return the options by name, with the text after the name for those that take a value."""
    return dict(OPTION.findall(usage))


def nothing(call: Call) -> None:
    """Do nothing: what the command asks for is so at any time."""


class Command:
    """A row.

    help: the usage, a colon, and what the command does
    banner: the line before the result: a function, or a text with `{0}` for the first argument, `{vhost}`, `{node}`,
        `{timeout}`, `{timeout_s}` and `{timeout_ms}`
    run: the function that answers
    after: the line after the result
    columns: functions by column name; `run` returns objects of the API, of which they read values. The columns in
        `default` are shown, or all, and those in `brief` on a terminal; a usage with <column> lets users choose.
    short: short options, in place of those that the other commands have
    local: only the unix socket accepts the command
    """

    def __init__(
        self,
        help: str,
        banner: Banner = "",
        run: Handler = nothing,
        *,
        after: str = "",
        columns: Columns | None = None,
        default: str = "",
        brief: str = "",
        timeout_s: float | None = None,
        format: str = "table",
        short: Mapping[str, str] = SHORT,
        local: bool = False,
    ) -> None:
        self.usage, _, self.about = help.partition(": ")
        self.name, _, rest = self.usage.partition(" ")
        self.banner, self.run, self.after = banner, run, after
        self.columns, self.default = columns, default.split() or list(columns or ())
        self.brief = brief.split() or self.default
        self.timeout_s, self.format, self.short, self.local = timeout_s, format, short, local
        self.options = options_in(rest)
        arguments = ARGUMENT.findall(OPTION.sub("", rest))
        self.least = sum(not optional for optional, _, _ in arguments)
        self.most = None if any(dots for _, _, dots in arguments) else len(arguments)

    def banner_of(self, call: Call, timeout_s: float | None) -> str:
        if callable(self.banner):
            return self.banner(call)
        seconds = timeout_s or 0.0
        times = {"timeout": seconds or "infinity", "timeout_s": int(seconds), "timeout_ms": int(seconds * 1000)}
        return self.banner.format(*call.arguments, vhost=call.vhost_name, node=call.node, **times)

    def answer(self, call: Call) -> Answer:
        """Run the command. Raises CommandError, APIError, Unreachable, TimeoutError."""
        answer: Any = self.run(call)
        if self.columns is not None:
            chosen = call.arguments if "<column>" in self.usage else []
            answer = self._select(self.columns, chosen, self.brief if call.terminal else self.default, answer)
        return Rows(answer.columns, list(answer.rows)) if isinstance(answer, Rows) else answer

    def _select(self, columns: Columns, chosen: list[str], default: list[str], items: list[Item]) -> Rows:
        """Return the chosen columns, or the default ones. Raises CommandError (64) for an unknown column."""
        names = [name for argument in chosen for name in argument.replace(",", " ").split()] or default
        unknown = [name for name in names if name not in columns]
        if unknown:
            raise CommandError(USAGE, f"Info key(s) {','.join(unknown)} are not supported", argument=True)
        readers = [columns[name] for name in names]
        return Rows(names, ([read(item) for read in readers] for item in items))


COMMANDS: dict[str, Command] = {}
GROUPS: dict[str, list[Command]] = {}


class Group:
    """A group of the help: calling it adds a command."""

    def __init__(self, title: str) -> None:
        self._commands = GROUPS[title] = []

    def __call__(self, help: str, banner: Banner = "", run: Handler = nothing, **more: Any) -> None:
        command = Command(help, banner, run, **more)
        self._commands.append(command)
        COMMANDS[command.name] = command

    def local(self, help: str, banner: Banner = "", run: Handler = nothing, **more: Any) -> None:
        """Add a command that only the unix socket accepts."""
        self(help, banner, run, local=True, **more)


# The groups, in the order of the help
USERS = Group("Users")
ACCESS = Group("Access Control")
VHOSTS = Group("Virtual hosts")
PARAMETERS = Group("Parameters")
POLICIES = Group("Policies")
MONITORING = Group("Monitoring, observability")
OPERATIONS = Group("Operations")
FEDERATION = Group("Federation")
DEFINITIONS = Group("Definitions")
NODES = Group("Nodes")
CHECKS = Group("Health checks")
DIAGNOSTICS = Group("Diagnostics")
UPGRADES = Group("Upgrades")
PLUGINS = Group("Plugins")


# Functions for rows that answer by one request


def get(path: str) -> Handler:
    """Return the handler of a list."""
    return lambda call: call.get(path)


def send(method: str, path: str, **body: object) -> Handler:
    """Return the handler that sends a request, whose answer is not printed."""

    def run(call: Call) -> None:
        call.api.request(method, call.path(path), None if method == "DELETE" else body)

    return run


def in_vhost(run: Handler) -> Handler:
    """Return the handler that checks first that the virtual host exists."""

    def check_and_run(call: Call) -> Answer:
        call.check_vhost()
        return run(call)

    return check_and_run


# Functions that read a column from an object


def field(*names: str) -> Callable[[Item], Any]:
    """Return a function that reads the value at a path of keys, or None."""

    def read(item: Item) -> Any:
        value: Any = item
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return read


def table_of(name: str) -> Callable[[Item], Any]:
    """Return a function that reads a JSON object; RabbitMQ writes an empty one as a list."""
    return lambda item: item.get(name) or {}


def columns(names: str, **others: Callable[[Item], Any]) -> Columns:
    """Return columns with the API's names, and others."""
    return {name: field(name) for name in names.split()} | others


def keys(names: str, **others: Callable[[Item], Any]) -> Columns:
    """Return columns with the API's names that each object has, and others."""
    return {name: itemgetter(name) for name in names.split()} | others
