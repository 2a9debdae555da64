"""Completion in shells, by click: the shell runs `warren` or `warrenctl` at each TAB, which print what may follow."""

import argparse

import click
from click.shell_completion import get_completion_class, shell_complete

VARIABLES = {"warren": "_WARREN_COMPLETE", "warrenctl": "_WARRENCTL_COMPLETE"}  # set by the shell
TYPES: dict[str, click.ParamType[object]] = {"DIR": click.Path(file_okay=False), "FILE": click.Path(dir_okay=False)}


def script(shell: str) -> str:
    """Return the script that makes bash, zsh or fish complete both commands."""
    kind = get_completion_class(shell)
    assert kind is not None
    scripts = [kind(click.Command(name), {}, name, variable).source() for name, variable in VARIABLES.items()]
    return "\n".join(scripts)


def complete(parser: argparse.ArgumentParser, instruction: str) -> int:
    """Print what may follow on the command line that the shell has put into the environment; return the exit status."""
    command = click_command(parser, parser.prog)
    return shell_complete(command, {}, parser.prog, VARIABLES[parser.prog], instruction)


def click_command(parser: argparse.ArgumentParser, name: str) -> click.Command:
    """Return a command of click with the options, arguments and subcommands of a parser."""
    parameters: list[click.Parameter] = []
    subcommands: dict[str, click.Command] = {}
    # argparse has no other list of what was added to a parser.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            subcommands = {word: click_command(each, word) for word, each in action.choices.items()}
        elif action.dest != "help":
            parameters.append(click_parameter(action))
    if subcommands:
        return click.Group(name, subcommands, params=parameters, short_help=parser.description)
    return click.Command(name, params=parameters, short_help=parser.description)


def click_parameter(action: argparse.Action) -> click.Parameter:
    """Return an option or an argument of argparse as click's."""
    kind: click.ParamType[object] | None = TYPES.get(str(action.metavar))
    if action.choices is not None:
        kind = click.Choice([str(choice) for choice in action.choices])
    if not action.option_strings:
        return click.Argument([action.dest], type=kind)
    flag = action.nargs == 0
    names = [*action.option_strings, action.dest]
    return click.Option(names, type=kind, help=action.help, is_flag=flag, multiple=not flag)
