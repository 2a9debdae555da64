"""Completion of `warrenctl` in shells: commands, their options, the columns of lists."""

from __future__ import annotations

import click
from click.shell_completion import shell_complete

from .catalogue import COMMANDS
from .command import Command
from .command_line import GLOBAL_FLAGS, GLOBAL_VALUES
from .formats import FORMATS

TYPES: dict[str, click.ParamType[object]] = {
    "data": click.Path(file_okay=False),
    "password-file": click.Path(dir_okay=False),
    "formatter": click.Choice(list(FORMATS)),
}


def columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the columns of the command whose names begin so."""
    from .commands.table import COLUMNS  # imports the HTTP client

    return [name for name in COLUMNS[str(ctx.info_name)] if name.startswith(incomplete)]


def complete(variable: str, instruction: str) -> int:
    """Print what may follow on the command line that the shell has put into the environment; return the exit status."""
    commands = {name: click_command(command) for name, command in COMMANDS.items()}
    names = click.Argument(["command"], type=click.Choice(list(commands)))
    commands["help"] = click.Command("help", params=[names], short_help="Prints the usage of a command")
    group = click.Group("warrenctl", commands, params=options(GLOBAL_VALUES, GLOBAL_FLAGS), add_help_option=False)
    return shell_complete(group, {}, "warrenctl", variable, instruction)


def options(values: dict[str, str], flags: dict[str, str]) -> list[click.Parameter]:
    """Return options by their long names, which have short names or an empty string."""
    return [
        click.Option(
            [f"--{name}", *([short] if short else [])], type=TYPES.get(name), is_flag=is_flag, multiple=not is_flag
        )
        for names, is_flag in ((values, False), (flags, True))
        for name, short in names.items()
    ]


def click_command(command: Command) -> click.Command:
    """Return a command with its options, those that all commands have, and its arguments."""
    own = {name: command.short.get(name, "") for name in command.values}
    flags = {name: command.short.get(name, "") for name in command.flags}
    parameters = options(GLOBAL_VALUES | own, GLOBAL_FLAGS | flags)
    if "<column>" in command.usage:
        words = click.Argument(["words"], nargs=-1, shell_complete=columns)
    else:
        words = click.Argument(["words"], nargs=-1, type=click.Path() if "<file>" in command.usage else None)
    parameters.append(words)
    return click.Command(command.name, params=parameters, short_help=command.about, add_help_option=False)
