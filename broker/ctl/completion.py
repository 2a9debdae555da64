"""Completion of `warrenctl` in shells: commands, their options, the columns of lists."""

from collections.abc import Mapping

import click
from click.shell_completion import shell_complete

from .command import SHORT, Command
from .command_line import GLOBAL, GLOBAL_SHORT
from .commands import COMMANDS
from .formats import FORMATS

TYPES: dict[str, click.ParamType[object]] = {
    "data": click.Path(file_okay=False),
    "password-file": click.Path(dir_okay=False),
    "formatter": click.Choice(list(FORMATS)),
}


def complete(variable: str, instruction: str) -> int:
    """Print what may follow on the command line that the shell has put into the environment; return the exit status."""
    commands = {name: click_command(command) for name, command in COMMANDS.items()}
    names = click.Argument(["command"], type=click.Choice(sorted(commands)))
    commands["help"] = click.Command("help", params=[names], short_help="Prints the usage of a command")
    parameters = options({}, SHORT)
    group = click.Group("warrenctl", commands, params=parameters, add_help_option=False)
    return shell_complete(group, {}, "warrenctl", variable, instruction)


def options(own: dict[str, str], short: Mapping[str, str]) -> list[click.Parameter]:
    """Return the options of all commands and those of one, with their short names."""
    letters = {**GLOBAL_SHORT, **short}
    return [
        click.Option(
            [f"--{name}", *([letters[name]] if name in letters else [])],
            type=TYPES.get(name),
            is_flag=not value,
            multiple=bool(value),
        )
        for name, value in sorted((GLOBAL | own).items(), key=lambda option: not option[1])  # the flags last
    ]


def click_command(command: Command) -> click.Command:
    """Return a command with its options, those that all commands have, and its arguments."""
    if "<column>" in command.usage:
        words = click.Argument(["words"], nargs=-1, type=click.Choice(list(command.columns or ())))
    else:
        words = click.Argument(["words"], nargs=-1, type=click.Path() if "<file>" in command.usage else None)
    parameters = [*options(command.options, command.short), words]
    return click.Command(command.name, params=parameters, short_help=command.about, add_help_option=False)
