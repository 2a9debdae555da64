"""The command `warren`. It starts fast and stays small, so what a command needs is imported in the command.

argparse, where warrenctl has typer: typer brings pydantic with it, 0.2 s and 20 MiB that a daemon keeps for its life.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

USAGE_STATUS = 2
CONFIG_STATUS = 78  # EX_CONFIG of sysexits.h, as rabbitmq-server ends when its configuration is unreadable

# the options of `serve` that stand in for a key of the file
FLAGS = ("amqp", "node", "cluster_name", "data_dir", "memory", "sync", "log_level")


class _Parser(argparse.ArgumentParser):
    """A parser that tells a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_STATUS, f"{self.prog}: {' '.join(message.split())}\n")


def distribution_version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warrenmq")
    except PackageNotFoundError:
        return "of a source tree that is not installed"


class _Version(argparse.Action):
    """`--version`; the number is looked up only when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"warren {distribution_version()}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The command line of `warren`, without abbreviations."""
    warren = _Parser(prog="warren", description="Warren, an AMQP 0-9-1 broker.", allow_abbrev=False)
    warren.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = warren.add_subparsers(metavar="COMMAND", required=True)

    about = "run a broker in the foreground; SIGTERM stops it"
    command = commands.add_parser("serve", help=about, description=about, allow_abbrev=False)
    command.set_defaults(run=serve)
    command.add_argument("--config", metavar="FILE", help="configuration, TOML")
    command.add_argument("--amqp", metavar="HOST:PORT", action="append", help="listen here, repeatable; port 0: any")
    command.add_argument("--node", metavar="NAME", help="name of the node")
    command.add_argument("--cluster-name", metavar="NAME", help="name of the cluster")
    store = command.add_mutually_exclusive_group()
    store.add_argument("--data", metavar="DIR", dest="data_dir", help="keep what is durable here; default ./data")
    store.add_argument("--memory", action="store_true", default=None, help="keep everything in memory, store nothing")
    command.add_argument("--sync", metavar="MODE", help="what a confirm waits for: fsync (default), or os")
    command.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning, error or critical")

    about = "verify what a stopped broker has stored"
    command = commands.add_parser("doctor", help=about, description=about, allow_abbrev=False)
    command.set_defaults(run=doctor)
    command.add_argument("--data", metavar="DIR", default="./data", help="the broker's folder; default ./data")
    return warren


def serve(options: argparse.Namespace) -> int:
    """Runs a broker until it is told to stop; returns the exit status."""
    from .config import ConfigError, load

    given: dict[str, Any] = {key: getattr(options, key) for key in FLAGS if getattr(options, key) is not None}
    if "data_dir" in given:
        given["memory"] = False
    try:
        config = load(options.config, given)
    except ConfigError as error:
        print(f"warren: {error}", file=sys.stderr)
        return CONFIG_STATUS

    from . import logs  # before app: logs has its own way of importing structlog

    logs.configure(config.log_level, config.log_format)

    from . import app

    return app.serve(config)


def doctor(options: argparse.Namespace) -> int:
    """Verifies a data folder; returns the exit status."""
    from pathlib import Path

    from .storage.doctor import examine

    return examine(Path(options.data))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of `warren` with these arguments (None: those of the process)."""
    options = parser().parse_args(arguments)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
