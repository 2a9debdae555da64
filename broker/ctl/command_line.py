"""The parser of the command line: options may come before the command, after it or between its arguments."""

import os
import re
import sys
from collections.abc import Collection, Mapping

import click

from .call import Call, Options
from .command import SHORT, Command, options_in
from .commands import COMMANDS, GROUPS

PROGRAM, PLUGINS_PROGRAM = "warrenctl", "rabbitmq-plugins"
PROGRAMS = (  # by these names it may be called
    *(PROGRAM, "rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-streams", "rabbitmq-upgrade"),
    PLUGINS_PROGRAM,
)
# Options of all commands
GLOBAL = options_in(
    "[--node <node>] [--timeout <timeout>] [--formatter <formatter>] [--data <folder>] [--url <url>]"
    "[--password-file <file>] [--erlang-cookie <cookie>] [--rabbitmq-home <folder>] [--script-name <name>]"
    "[--vhost <vhost>] [--quiet] [--silent] [--longnames] [--no-table-headers] [--dry-run] [--help] [--version]"
)
GLOBAL_SHORT = {"node": "-n", "timeout": "-t", "quiet": "-q", "silent": "-s", "longnames": "-l", "help": "-?"}
SWITCHES = "[--node <node>] [--timeout <timeout>] [--quiet]"
WHERE = (
    "--data DIR   the folder of the node's data, with its control socket; default: $RABBITMQ_MNESIA_DIR or ./data",
    "--url URL    the node's HTTP API in its place, http://USER@HOST:15672, for most commands",
    "--password-file FILE   the password for --url, on its first line; default: $WARRENCTL_PASSWORD, or a prompt",
)
OTHER_NAMES = dict.fromkeys(("host", "hostname", "port", "user", "username"), "url")  # of rabbitmqadmin's options
SIMILAR = 0.65  # from 0 for two words without a common letter to 1 for the same word, as difflib has it
CREDENTIALS = re.compile(r"(?<=:)//.*@", re.DOTALL)  # in a URL; greedy, as removing too much is better than too little


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


def parse(line: list[str]) -> Call:
    """Parse a command line; an empty command asks for the general help. Raises BadCommandLine."""
    try:
        # Short options mean different things in different commands.
        first = next((word for word in split(line, lenient=True)[0] if not word.startswith("-")), "")
    except BadCommandLine:  # an option without its value
        first = ""
    words, options = split(line, COMMANDS.get(first))
    name = words.pop(0) if words else ""
    if name == "help":
        name, options["help"] = words.pop(0) if words else "", True
    if not name:
        return Call("", [], options)
    if name not in names():
        raise BadCommandLine(unknown(name))
    call = Call(name, words, options)
    if not call.flag("help"):
        check(COMMANDS[name], call, line)
    return call


def split(line: list[str], command: Command | None = None, lenient: bool = False) -> tuple[list[str], Options]:
    """Return the words and the options of a command line; `lenient` ignores unknown options. Raises BadCommandLine."""
    values = GLOBAL | {name: value for command in COMMANDS.values() for name, value in command.options.items()}
    letters = {**GLOBAL_SHORT, **(command.short if command else SHORT)}
    options: list[click.Parameter] = [
        click.Option([f"--{name}", *filter(None, [letters.get(name)])], is_flag=not value, default=None)
        for name, value in values.items()
    ]
    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": lenient}
    parser = click.Command(PROGRAM, params=[*options, words], add_help_option=False, context_settings=settings)
    try:
        found = parser.make_context(PROGRAM, list(line), resilient_parsing=lenient).params
    except click.NoSuchOption as error:
        raise BadCommandLine(complaint(invalid([error.option_name], command), line, command)) from None
    except click.UsageError as error:
        raise BadCommandLine(complaint(" ".join(error.format_message().split()), line)) from None
    arguments = [str(word) for word in found.pop("words") or ()]
    return arguments, {name.replace("_", "-"): value for name, value in found.items() if value not in (None, False)}


def check(command: Command, call: Call, line: list[str]) -> None:
    """Check options and number of arguments. Raises BadCommandLine."""
    strange = [f"--{name}" for name in call.options if name not in GLOBAL and name not in command.options]
    problem = ""
    if strange:
        problem = invalid(strange, command)
    elif len(call.arguments) < command.least:
        problem = "not enough arguments."
    elif command.most is not None and len(call.arguments) > command.most:
        problem = "too many arguments."
    if problem:
        raise BadCommandLine(complaint(problem, line, command))


def complaint(text: str, line: list[str], command: Command | None = None) -> str:
    shown = " ".join([CREDENTIALS.sub("//", word) for word in line])
    return f"Error (argument validation): {text}\nArguments given:\n\t{shown}\n\n{usage(command)}"


def invalid(options: list[str], command: Command | None) -> str:
    """Return the text for options that the command does not have, with those that were probably meant."""
    known = [*GLOBAL, *(command.options if command else ())]
    lines = ["Invalid options for this command:"]
    for option in options:
        name = option.lstrip("-")
        near = [OTHER_NAMES[name]] if name in OTHER_NAMES else similar(name, known)
        lines += [f"{option} : ", *(f"Did you mean '--{one}'? " for one in near)]
    return "\n".join(lines)


def unknown(name: str) -> str:
    """Return the text for a command that does not exist, with what was probably meant."""
    from .missing_commands import MISSING, OF_WARREN

    if name in MISSING:
        return f"\nWarren has no command '{name}': {MISSING[name]}."
    near = [f"warren {name}"] if name in OF_WARREN else similar(name, [*names(), "help"])
    hint = f"Did you mean '{near[0]}'? " if near else f"\n{usage()}"
    return f"\nCommand '{name}' not found. \n{hint}"


def similar(name: str, known: Collection[str]) -> list[str]:
    """Return the most similar of the known names, or an empty list."""
    from difflib import get_close_matches  # here, because it is rarely needed

    return get_close_matches(name, known, 1, SIMILAR)


def usage(command: Command | None = None) -> str:
    if command is None:
        return f"Usage\n\n{program()} {SWITCHES} <command> [<command options>]"
    text = f"Usage\n\n{program()} {SWITCHES} {command.usage}"
    if command.columns and "<column>" in command.usage:
        text += f"\n\n<column>\n\tmust be one of {', '.join(command.columns)}"
    return text


def help_of(command: Command) -> str:
    return f"\n{usage(command)}\n\n{command.about}\n"


def help_of_all() -> str:
    lines = ["", usage(), "", *WHERE, "", "Available commands:", ""]
    for title, commands in groups().items():
        lines += [f"{title}:", ""]
        lines += [f"   {command.name:<34} {command.about}" for command in sorted(commands, key=lambda one: one.name)]
        lines.append("")
    lines += [f"Use '{program()} help <command>' to learn more about a specific command"]
    return "\n".join(lines)
