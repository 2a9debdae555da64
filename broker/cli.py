"""The command `warren`. Each subcommand imports what it needs itself, so that it starts fast and stays small.

It uses argparse, and not click as warrenctl does, because a daemon keeps in memory what it has imported.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from . import standard_streams
from .product import distribution_version

if TYPE_CHECKING:
    from types import FrameType

    from .plugin_host.host import Command

USAGE_STATUS = 64  # EX_USAGE of sysexits.h; low numbers are results, such as the verdict of `warren analyze`
NO_INPUT_STATUS = 66  # EX_NOINPUT of sysexits.h
CONFIG_STATUS = 78  # EX_CONFIG of sysexits.h, as rabbitmq-server ends when its configuration is unreadable

# with these, commands of plugins are not loaded
OURS = ["serve", "plugins", "doctor", "store", "copy", "restore", "systemd-unit", "completion", "version", "--version"]
HELP = "help"
COMPLETION = "_WARREN_COMPLETE"  # set by a shell that wants to know what may follow

# options of `serve` that override a key of the configuration file
FLAGS = ("amqp", "amqps", "http", "metrics", "node", "cluster_name", "data_dir", "memory", "store", "sync", "log_level")

# words of other programs' command lines -> ours
OTHER_NAMES = {
    **dict.fromkeys(("--port", "--listen", "--bind", "--address", "--host", "--amqp-port", "-p"), "--amqp"),
    **dict.fromkeys(("--tls", "--ssl"), "--amqps"),
    **dict.fromkeys(("--management", "--http-port", "--web", "--ui"), "--http"),
    "--prometheus": "--metrics",
    **dict.fromkeys(("--conf", "-c", "-f"), "--config"),
    **dict.fromkeys(("--dir", "--directory", "--folder", "-d", "-D"), "--data"),
    **dict.fromkeys(("--name", "--nodename", "-n"), "--node"),
    **dict.fromkeys(("--postgresql", "--postgres"), "--store"),
    **dict.fromkeys(("--log", "--logs", "--verbose", "--debug"), "--log-level"),
    **dict.fromkeys(("-v", "-V"), "--version"),
    **dict.fromkeys(("start", "run", "server"), "serve"),
}
# errors of argparse -> ours, with the groups
SENTENCES = {
    r"the following arguments are required: (.+)": r"missing: \1",
    r"argument (\S+): expected .+": r"\1 needs a value",
    r"argument (\S+): not allowed with argument (\S+)": r"\1 and \2 exclude each other",
    r"argument ([^ ]+): (.+)": r"\1: \2",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports a wrong command line in one sentence, with the command that shows the right one."""

    def error(self, message: str) -> NoReturn:
        text = " ".join(message.split())
        for pattern, sentence in SENTENCES.items():
            text = re.sub(f"^{pattern}$", sentence, text)
        about = self.prog.replace("warren", f"warren {HELP}", 1)
        self.exit(USAGE_STATUS, f"{self.prog}: {text} (`{about}` shows the usage)\n")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Report words that the command line has too many."""
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
        if option:
            self.error(f"there is no option {option}{suggestion(option, self._option_string_actions)}")
        self.error(f"'{words[0]}' is one word too many")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value != [] and value not in action.choices:
            what = str(action.metavar or "choice").lower()
            suggest = command_suggestion if what == "command" else suggestion
            raise argparse.ArgumentError(None, f"there is no {what} {value}{suggest(value, action.choices)}")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question with the known word that was probably meant, or an empty text."""
    from .ctl.command_line import similar  # here, because it is rarely needed

    names = {name.lstrip("-"): name for name in known}  # with their dashes all options are similar
    near = [OTHER_NAMES[word]] if OTHER_NAMES.get(word) in names.values() else []
    near = near or [names[name] for name in similar(word.lstrip("-"), names)]
    return f"; did you mean {near[0]}?" if near else ""


def command_suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question with a command, of `warrenctl` if that has one of this name, or an empty text."""
    from .ctl.commands import COMMANDS

    return f"; did you mean warrenctl {word}?" if word in COMMANDS else suggestion(word, known)


class _Version(argparse.Action):
    """The option `--version`, which looks the number up only when used."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        version()
        parser.exit()


def version(options: argparse.Namespace | None = None) -> int:
    """Print the version, and return the exit status."""
    from .compilation import DESCRIPTION

    print(f"warren {distribution_version()}, {DESCRIPTION}")
    return 0


def parser(more: Mapping[str, Command] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, without abbreviations; `more` are the commands of plugins."""
    warren = _Parser(prog="warren", description="Warren, an AMQP 0-9-1 broker.", allow_abbrev=False)
    warren.set_defaults(run=None, parser=warren)
    warren.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = warren.add_subparsers(metavar="COMMAND")

    command = add_command(commands, "serve", "run a broker in the foreground; SIGTERM stops it", serve)
    command.add_argument("--config", metavar="FILE", help="configuration: rabbitmq.conf, or TOML if it ends in .toml")
    about = "listen here, repeatable; default: 127.0.0.1, port 5672; port 0: any"
    command.add_argument("--amqp", metavar="[HOST:]PORT", action="append", help=about)
    command.add_argument("--amqps", metavar="[HOST:]PORT", action="append", help="listen here with TLS, repeatable")
    about = "browser and HTTP API; default: port 15672, beside AMQP, if it is free"
    command.add_argument("--http", metavar="[HOST:]PORT", help=about)
    about = "metrics for Prometheus; default: port 15692, beside AMQP, if it is free"
    command.add_argument("--metrics", metavar="[HOST:]PORT", help=about)
    command.add_argument("--node", metavar="NAME", help="name of the node")
    command.add_argument("--cluster-name", metavar="NAME", help="name of the cluster")
    place = command.add_mutually_exclusive_group()
    place.add_argument("--data", metavar="DIR", dest="data_dir", help="keep what is durable here; default ./data")
    command.add_argument("--store", metavar="URL", help="keep what is durable on PostgreSQL: postgresql://USER@HOST/DB")
    place.add_argument("--memory", action="store_true", default=None, help="keep everything in memory, store nothing")
    command.add_argument("--sync", metavar="MODE", help="what a confirm waits for: fsync (default), or os")
    command.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning, error or critical")

    about = "print the configuration that this command line gives, and leave"
    command.add_argument("--print-config", action="store_true", help=about)

    add_command(
        commands,
        "plugins",
        "list the exchange types that a broker started here would know, with their distributions",
        plugins,
    )

    command = add_command(commands, "doctor", "verify what a stopped broker has stored", doctor)
    command.add_argument("--data", metavar="DIR", default="./data", help="the broker's folder; default ./data")
    command.add_argument(
        "--store", metavar="URL", type=store_url, help="its store on PostgreSQL, in place of the folder"
    )
    add_store_options(command)

    about = "create, update or check the tables of a store on PostgreSQL"
    command = add_command(commands, "store", about)
    actions = command.add_subparsers(metavar="ACTION", required=True)
    for name, run, about in (
        ("init", store_init, "create the schema and its tables, or update them to this version"),
        ("check", store_check, "check that a broker can use the store, and print what a confirm means there"),
    ):
        action = add_command(actions, name, about, run)
        action.add_argument("url", metavar="URL", type=store_url, help="postgresql://USER@HOST1,HOST2/DATABASE")
        add_store_options(action)

    command = add_command(
        commands,
        "copy",
        "copy what a stopped broker has stored to another store, which must be empty, and verify every record",
        copy,
    )
    command.add_argument("--from", metavar="DIR|URL", dest="source", required=True, help="a data folder, or PostgreSQL")
    command.add_argument("--to", metavar="DIR|URL", dest="target", required=True, help="a data folder, or PostgreSQL")
    add_store_options(command)

    about = "restore a backup of `warrenctl backup` to a store, which must be empty, and verify every record"
    command = add_command(commands, "restore", about, restore)
    command.add_argument("file", metavar="FILE", help="the backup, or - for the standard input")
    place = command.add_mutually_exclusive_group(required=True)
    place.add_argument("--data", metavar="DIR", help="restore it to this data folder")
    place.add_argument("--store", metavar="URL", type=store_url, help="restore it to this store on PostgreSQL")
    place.add_argument("--check", action="store_true", help="verify the backup, and restore nothing")
    add_store_options(command)

    add_command(commands, "systemd-unit", "print a unit of systemd that starts this broker", systemd_unit)

    command = add_command(
        commands, "completion", "print the script that makes a shell complete warren and warrenctl", completion
    )
    command.add_argument("shell", metavar="SHELL", choices=("bash", "fish", "zsh"), help="bash, fish or zsh")

    add_command(commands, "version", "print the version", version)
    command = add_command(commands, HELP, "show the commands, or the options of one command")
    about = "the command, and its action"
    command.add_argument("words", metavar="COMMAND", nargs="*", choices=commands.choices, help=about)

    for name, plugged in (more or {}).items():
        plugged.add_options(add_command(commands, name, plugged.about, plugged.run))
    return warren


def add_command(
    commands: argparse._SubParsersAction[Any],
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Add a command, which `run` executes; one without it has commands of its own."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
    command.set_defaults(run=run, parser=command)
    return command


def add_store_options(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that connect to PostgreSQL; `serve` has keys of the configuration for them."""
    command.add_argument("--password-file", metavar="FILE", default="", help="a file with the password of the user")
    command.add_argument("--schema", metavar="NAME", default="warren", help="the schema; default: warren")


def store_url(text: str) -> str:
    """Return the URL of a store. Raises ArgumentTypeError."""
    from .config.value_types import StoreUrl

    try:
        return StoreUrl(empty=False).read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def serve(options: argparse.Namespace) -> int:
    """Run a broker until it is stopped, and return the exit status."""
    from .config import COMMAND_LINE, ConfigError, Sources

    overrides: dict[str, Any] = {key: getattr(options, key) for key in FLAGS if getattr(options, key) is not None}
    if overrides.keys() & {"data_dir", "store"}:
        overrides.setdefault("memory", False)
    sources = Sources(options.config, overrides)
    try:
        config = sources.load()
    except ConfigError as error:
        print(f"warren: {error}", file=sys.stderr)
        return USAGE_STATUS if str(error).startswith(COMMAND_LINE) else CONFIG_STATUS
    if options.print_config:
        from .config.printing import text_of

        sys.stdout.write("".join([f"# {warning}\n" for warning in sources.warnings]) + text_of(config))
        return 0

    from . import logs  # before app: logs imports structlog in its own way
    from .system_errors import file_error

    try:
        logs.configure(config.log, node=config.node)
    except OSError as error:
        origin = sources.origins.get("log.file", "configuration")
        print(f"warren: {origin}: log.file: {file_error(error, config.log.file)}", file=sys.stderr)
        return CONFIG_STATUS

    from .app import main as app

    for warning in sources.warnings:
        app.log.warning("configuration", what=warning)
    return app.serve(config, sources)


def plugins(options: argparse.Namespace) -> int:
    """Print the installed exchange types, and return the exit status."""
    from .core.exchanges.built_in import new_registry
    from .plugin_host.loading import BROKEN_PLUGIN, PluginError, load_exchange_types

    registry = new_registry()
    try:
        load_exchange_types(registry)
    except PluginError as error:
        print(f"warren: {error}", file=sys.stderr)
        return BROKEN_PLUGIN
    for name, distribution in registry.distributions():
        print(f"{name}\t{distribution or 'built in'}")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Verify a data folder, and return the exit status."""
    from pathlib import Path

    from .storage.doctor import examine, examine_url

    if options.store:
        return examine_url(options.store, options.password_file, options.schema)
    former = signal.signal(signal.SIGTERM, terminated)
    try:
        return examine(Path(options.data))
    finally:
        signal.signal(signal.SIGTERM, former)


def terminated(number: int, frame: FrameType | None) -> NoReturn:
    """End at a signal as at an error, so that temporary files are removed: they have hashes of passwords."""
    sys.exit(128 + number)


def unusable(error: OSError) -> int:
    """Print which file a command cannot use, and return the exit status."""
    from .system_errors import file_error

    print(f"warren: {file_error(error)}", file=sys.stderr)
    return NO_INPUT_STATUS


def store_init(options: argparse.Namespace) -> int:
    """Create or update the tables of a store, and return the exit status."""
    from .storage.postgresql.commands import init

    return init(options.url, options.password_file, options.schema)


def store_check(options: argparse.Namespace) -> int:
    """Check a store, and return the exit status."""
    from .storage.postgresql.commands import check

    return check(options.url, options.password_file, options.schema)


def copy(options: argparse.Namespace) -> int:
    """Copy a store, and return the exit status."""
    from .storage.copy import copy_store

    try:
        return copy_store(options.source, options.target, options.password_file, options.schema)
    except OSError as error:
        return unusable(error)


def restore(options: argparse.Namespace) -> int:
    """Restore or verify a backup, and return the exit status."""
    from .storage.restore import check, restore

    if options.check:
        return check(options.file)
    former = signal.signal(signal.SIGTERM, terminated)
    try:
        return restore(options.file, options.store or options.data, options.password_file, options.schema)
    finally:
        signal.signal(signal.SIGTERM, former)


def systemd_unit(options: argparse.Namespace) -> int:
    """Print the unit of systemd, and return the exit status."""
    from .system.unit import unit

    sys.stdout.write(unit())
    return 0


def completion(options: argparse.Namespace) -> int:
    """Print the script for a shell, and return the exit status."""
    from .system.completion import script

    sys.stdout.write(script(options.shell))
    return 0


def empty_one(arguments: Sequence[str]) -> str:
    """Return the option whose value is empty, which would mean its default or the working directory; "" if none is."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        name, _, value = argument.partition("=")
        if argument.startswith("--") and "=" in argument and not value:
            return name
        if not argument:
            return before if before.startswith("--") else "an argument"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `warren` with these arguments, by default those of the process, and return the exit status."""
    return standard_streams.run("warren", partial(run, sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command line, and return the exit status. Raises OutputError."""
    more: Mapping[str, Command] = {}
    completing = os.environ.get(COMPLETION)
    if completing or not arguments or arguments[0] not in OURS:
        from .plugin_host.loading import BROKEN_PLUGIN, PluginError, load_commands

        try:
            more = load_commands((*OURS, HELP))
        except PluginError as error:
            print(f"warren: {error}", file=sys.stderr)
            return BROKEN_PLUGIN
    if completing:
        from .system.completion import complete

        return complete(parser(more), completing)
    parsing = parser(more)
    empty = empty_one(arguments)
    if empty:
        parsing.exit(USAGE_STATUS, f"warren: {empty} is empty: in a script, is a variable not set?\n")
    if arguments[:1] == [HELP]:
        arguments = [*arguments[1:], "--help"]
    options, unknown = parsing.parse_known_args(arguments)
    if unknown:
        options.parser.refuse(unknown)
    if options.run is None:
        options.parser.print_help()
        return USAGE_STATUS
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
