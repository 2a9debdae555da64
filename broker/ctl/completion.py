"""Completion of `warrenctl` in shells: commands, their options, the columns of lists, and the names of objects.

Names are asked of the node that the command line names, by its options for the connection; without an answer in
ANSWER_S there are none. A name that a shell would have to quote is not offered.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, shell_complete

from .call import Call
from .command import ARGUMENT, OPTION, SHORT, Command
from .command_line import GLOBAL, GLOBAL_SHORT
from .commands import COMMANDS
from .commands.connections_and_channels import pid
from .errors import APIError, CommandError, ExitError, Unreachable
from .formats import FORMATS

if TYPE_CHECKING:
    from .call import Options

ANSWER_S = 1.0
NAMES = 100  # of objects that are offered
# The lists of the API with the names of an argument or option
LISTS = {
    **dict.fromkeys(("queue", "destination"), "queues/{vhost}"), "exchange": "exchanges/{vhost}", "vhost": "vhosts",
    **dict.fromkeys(("username", "user"), "users"), "connection_pid": "connections", "link_id": "federation-links",
}  # fmt: skip
LISTS_OF_NAMES = {  # of the argument <name>, by command
    "clear_policy": "policies/{vhost}", "clear_operator_policy": "operator-policies/{vhost}",
    "clear_global_parameter": "global-parameters", "list_policies_that_match": "queues/{vhost}",
}  # fmt: skip


class ObjectName(click.ParamType[str]):
    """The names of objects of the node: of an option, or of the arguments of a command in their order."""

    name = "name"

    def __init__(self, lists: list[str]) -> None:
        """`lists` are paths of the API, empty for an argument that names no object."""
        self._lists = lists

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        place = len(ctx.params.get("words") or ()) if isinstance(param, click.Argument) else 0
        path = self._lists[place] if place < len(self._lists) else ""
        names = names_of(path, incomplete, options_of(ctx)) if path else []
        return [CompletionItem(name) for name in names if shlex.quote(name) == name]


def options_of(context: click.Context) -> Options:
    """Return the options so far that have a value, of the command and before it."""
    found: Options = {}
    for each in (context.parent, context):
        given = each.params.items() if each is not None else ()
        found |= {name.replace("_", "-"): one[-1] for name, one in given if isinstance(one, tuple) and one}
    found.pop("words", None)
    return found


def names_of(path: str, incomplete: str, options: Options) -> list[str]:
    """Return the names in a list of the API that begin with a text, or none if the node does not answer."""
    from . import node  # imports the HTTP client, which other completions do not need

    call = Call("list_queues", [], options)
    with suppress(APIError, CommandError, ExitError, OSError, Unreachable, LookupError, TypeError, ValueError):
        if "url" in options:
            node.connect_to_url(call, call.text("url"), ANSWER_S, call.text("password-file"), ask=False)
        else:
            node.connect_to_socket(call, call.folder, ANSWER_S)
        with closing(call.api):
            page = {"page": "1", "page_size": str(NAMES), "name": incomplete}
            answer = call.get(path, page if path != LISTS["link_id"] else {})  # the API filters links by another name
        items = answer["items"] if isinstance(answer, dict) else answer
        names = [str(item["id"] if "id" in item else item["name"]) for item in items]
        names = [pid(name) for name in names] if path == "connections" else names
        return sorted(name for name in names if name.startswith(incomplete))[:NAMES]
    return []


TYPES: dict[str, click.ParamType[object]] = {
    "data": click.Path(file_okay=False),
    "password-file": click.Path(dir_okay=False),
    "formatter": click.Choice(list(FORMATS)),
    "vhost": ObjectName(["vhosts"]),
    "user": ObjectName(["users"]),
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
    words = click.Argument(["words"], nargs=-1, type=type_of_arguments(command))
    parameters = [*options(command.options, command.short), words]
    return click.Command(command.name, params=parameters, short_help=command.about, add_help_option=False)


def type_of_arguments(command: Command) -> click.ParamType[object]:
    if "<column>" in command.usage:
        return click.Choice(list(command.columns or ()))
    if "<file>" in command.usage:
        return click.Path()
    names = [name for _, name, _ in ARGUMENT.findall(OPTION.sub("", command.usage))]
    of_name = LISTS_OF_NAMES.get(command.name, "")
    return ObjectName([of_name if name == "name" else LISTS.get(name, "") for name in names])
