"""The command `warren`. It starts fast: what a command needs is imported in the command."""

import sys
from typing import Annotated

import typer

USAGE_STATUS = 2
CONFIG_STATUS = 78  # EX_CONFIG of sysexits.h, as rabbitmq-server ends when its configuration is unreadable

app = typer.Typer(help="Warren, an AMQP 0-9-1 broker.", add_completion=False, rich_markup_mode=None)


def distribution_version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warrenmq")
    except PackageNotFoundError:
        return "of a source tree that is not installed"


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"warren {distribution_version()}")
        raise typer.Exit


def run(application: typer.Typer, program: str, usage_status: int) -> int:
    """Runs a typer application and returns the exit status; a wrong command line is told in one line."""
    try:
        return application(prog_name=program, standalone_mode=False) or 0
    except typer.TyperException as error:
        print(f"{program}: {' '.join(error.format_message().split())}", file=sys.stderr)
        return usage_status


@app.callback(invoke_without_command=True)
def warren(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Warren, an AMQP 0-9-1 broker."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def serve(
    config: Annotated[str | None, typer.Option(metavar="FILE", help="Configuration, TOML.")] = None,
    amqp: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Listen here; may be repeated. Port 0: any.")
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the node.")] = None,
    cluster_name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the cluster.")] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory (the only way so far).")] = False,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning, error or critical.")
    ] = None,
) -> int:
    """Run a broker in the foreground; SIGTERM stops it."""
    from .config import ConfigError, load

    given = {"amqp": amqp or None, "node": node, "cluster_name": cluster_name, "log_level": log_level}
    try:
        settings = load(config, {key: value for key, value in given.items() if value is not None})
    except ConfigError as error:
        print(f"warren: {error}", file=sys.stderr)
        return CONFIG_STATUS

    from .app import serve as serve_until_stopped
    from .logs import configure

    configure(settings.log_level, settings.log_format)
    return serve_until_stopped(settings)


def main() -> int:
    return run(app, "warren", USAGE_STATUS)


if __name__ == "__main__":
    sys.exit(main())
