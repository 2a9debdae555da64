"""The parser of the command line: options may come before the command, after it or between its arguments."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping

import click

from .catalogue import COMMANDS, GROUPS
from .command import SHORT, Command
from .request import Request

USAGE = 64  # EX_USAGE
PROGRAM, PLUGINS_PROGRAM = "warrenctl", "rabbitmq-plugins"
PROGRAMS = (  # by these names it may be called
    *(PROGRAM, "rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-streams", "rabbitmq-upgrade"),
    PLUGINS_PROGRAM,
)

# long name -> short ones; the options with a value, and the flags
GLOBAL_VALUES = {
    "node": "-n",
    "timeout": "-t",
    "formatter": "",
    "data": "",
    "url": "",
    "password-file": "",
    "erlang-cookie": "",
    "rabbitmq-home": "",
    "script-name": "",
    "vhost": "-p",
}
GLOBAL_FLAGS = {"quiet": "-q", "silent": "-s", "longnames": "-l", "no-table-headers": "", "dry-run": ""}
GLOBAL_FLAGS |= {"help": "-?", "version": ""}

WHERE = (
    "--data DIR   the folder of the node's data, with its control socket; default: $RABBITMQ_MNESIA_DIR or ./data",
    "--url URL    the node's HTTP API in its place, http://USER@HOST:15672, for most commands",
    "--password-file FILE   the password for --url, on its first line; default: $WARRENCTL_PASSWORD",
)
CREDENTIALS = re.compile(r"(?<=:)//.*@", re.DOTALL)  # in a URL; greedy, as removing too much is better than too little

SWITCHES = "[--node <node>] [--timeout <timeout>] [--quiet]"


class BadCommandLine(Exception):
    """A command line that cannot be parsed; the text is printed."""


def program() -> str:
    """Return the name by which this program was called, as usage and errors show it."""
    name = os.path.basename(sys.argv[0])
    return name if name in PROGRAMS else PROGRAM


def groups() -> Mapping[str, list[Command]]:
    """Return the commands of this program by group: rabbitmq-plugins has few, the others have all."""
    return {"Plugins": [*GROUPS["Plugins"], COMMANDS["version"]]} if program() == PLUGINS_PROGRAM else GROUPS


def names() -> list[str]:
    return [command.name for commands in groups().values() for command in commands]


def parameters(short: Mapping[str, str] = SHORT) -> list[click.Parameter]:
    """Return click's parameters for the options of all commands. `short` are the short names."""
    values, flags = dict(GLOBAL_VALUES), dict(GLOBAL_FLAGS)
    for command in COMMANDS.values():
        values |= {name: short.get(name, "") for name in command.values}
        flags |= {name: short.get(name, "") for name in command.flags if name not in flags}
    found: list[click.Parameter] = [
        click.Option([f"--{name}", *([short] if short else []), name.replace("-", "_")], is_flag=is_flag, default=None)
        for names, is_flag in ((values, False), (flags, True))
        for name, short in names.items()
    ]
    found.append(click.Argument(["words"], nargs=-1, type=click.UNPROCESSED))
    return found


def parse(line: list[str]) -> Request:
    """Parse a command line; an empty command asks for the general help. Raises BadCommandLine."""
    command = command_of(line)
    own = COMMANDS[command].short if command in COMMANDS else SHORT
    parser = click.Command("warrenctl", params=parameters(own), add_help_option=False)
    try:
        context = parser.make_context("warrenctl", list(line), resilient_parsing=False)
    except click.NoSuchOption as error:
        raise BadCommandLine(complaint(f"Invalid options for this command:\n{error.option_name} : ", line)) from None
    except click.UsageError as error:
        raise BadCommandLine(complaint(" ".join(error.format_message().split()), line)) from None
    words = [str(word) for word in context.params.pop("words")]
    given = {name.replace("_", "-"): value for name, value in context.params.items() if value is not None}
    options: dict[str, str | bool] = {name: value for name, value in given.items() if value is not False}
    name = words.pop(0) if words else ""
    if name == "help":
        name, options["help"] = words.pop(0) if words else "", True
    if not name:
        return Request("", [], options)
    if name not in names():
        raise BadCommandLine(unknown(name))
    request = Request(name, words, options)
    if not options.get("help"):
        check(COMMANDS[name], request, line)
    return request


def command_of(line: list[str]) -> str:
    """Return the first word that is neither an option nor an option's value, or "".

    It is needed before the line is parsed, because short options mean different things in different commands.
    """
    parser = click.Command(
        "warrenctl", params=parameters(), add_help_option=False, context_settings={"ignore_unknown_options": True}
    )
    try:
        words = parser.make_context("warrenctl", list(line), resilient_parsing=True).params["words"]
    except click.UsageError:  # an option without its value: `parse` reports it
        return ""
    return next((word for word in words or () if not word.startswith("-")), "")


def check(command: Command, request: Request, line: list[str]) -> None:
    """Check options and number of arguments. Raises BadCommandLine."""
    known = {*GLOBAL_VALUES, *GLOBAL_FLAGS, *command.values, *command.flags}
    strange = [f"--{name} : " for name in request.options if name not in known]
    if strange:
        raise BadCommandLine(complaint("\n".join(["Invalid options for this command:", *strange]), line, command))
    if len(request.arguments) < command.least:
        raise BadCommandLine(complaint("not enough arguments.", line, command))
    if command.most is not None and len(request.arguments) > command.most:
        raise BadCommandLine(complaint("too many arguments.", line, command))


def complaint(text: str, line: list[str], command: Command | None = None) -> str:
    shown = " ".join([CREDENTIALS.sub("//", word) for word in line])
    lines = [f"Error (argument validation): {text}", "Arguments given:", "\t" + shown]
    return "\n".join([*lines, "", usage(command)])


def unknown(name: str) -> str:
    close = difflib.get_close_matches(name, names(), 1)
    hint = [f"Did you mean '{close[0]}'? "] if close else [""]
    return "\n".join(["", f"Command '{name}' not found. ", *hint, *([] if close else [usage(None)])])


def usage(command: Command | None) -> str:
    if command is None:
        return f"Usage\n\n{program()} {SWITCHES} <command> [<command options>]"
    lines = [f"Usage\n\n{program()} {SWITCHES} {command.usage}"]
    if "<column>" in command.usage:
        from .commands.table import COLUMNS  # imports the HTTP client, which few commands need here

        lines += ["", "<column>", f"\tmust be one of {', '.join(COLUMNS[command.name])}"]
    return "\n".join(lines)


def help_of(command: Command) -> str:
    return f"\n{usage(command)}\n\n{command.about}\n"


def help_of_all() -> str:
    lines = ["", usage(None), "", *WHERE, "", "Available commands:", ""]
    for title, commands in groups().items():
        lines += [f"{title}:", ""]
        lines += [f"   {command.name:<34}{command.about}" for command in sorted(commands, key=lambda one: one.name)]
        lines.append("")
    lines += [f"Use '{program()} help <command>' to learn more about a specific command"]
    return "\n".join(lines)
