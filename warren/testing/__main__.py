"""The broker for tests as a program: `python -m warren.testing [--data FOLDER] [--set KEY=VALUE]...`.

It prints one line of JSON with its addresses when it is ready, serves the controls of `control`, and ends with its
input, or by SIGTERM. It is the daemon of `warren serve` with another clock and another transport. Nothing that
`warren serve` can be given loads them or the controls.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from warren.broker.config import Config, ConfigError, Sources
from warren.broker.config.builder import ConfigBuilder
from warren.broker.config.rabbitmq_conf import path_of
from warren.broker.config.setting import Setting

from .broker import HOST, reserve_port

# A password is hashed at the start and with each login: as quickly as possible here.
DEFAULTS = (
    *("warren.memory=true", "warren.node=warren@testing", "password_hashing_module=rabbit_password_hashing_sha256"),
    *(f"management.tcp.ip={HOST}", "management.tcp.port=0", f"prometheus.tcp.ip={HOST}", "prometheus.tcp.port=0"),
    "log.console.formatter=plaintext",
)
# With a data folder: what a confirm promises survives the process, and need not survive the machine. Folders for
# temporary files may be small.
STORED = ("warren.memory=false", "warren.sync=os", "disk_free_limit.absolute=0")
LISTENERS = "listeners."  # the beginning of the keys of listeners
CONFIG_STATUS = 78  # EX_CONFIG of sysexits.h


def parsed(text: str) -> Setting:
    """Return the setting that a text KEY=VALUE has."""
    key, _, value = text.partition("=")
    return Setting(path_of(key.strip()), value.strip(), f"command line: --set {text}")


def build_config(chosen: Sequence[str], port: int, data: str = "") -> Config:
    """Return the configuration with these settings; it listens at the port unless they have listeners."""
    builder = ConfigBuilder()
    builder.add_all(map(parsed, DEFAULTS))
    if data:
        builder.add_all(map(parsed, (*STORED, f"warren.data_dir={data}")))
    if not any(text.startswith(LISTENERS) for text in chosen):
        builder.add(parsed(f"listeners.tcp.1={HOST}:{port}"))
    builder.add_all(map(parsed, chosen))
    return builder.config(Config())


def main() -> int:
    """Run the broker, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m warren.testing", description="A broker for tests, in memory.")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a key of rabbitmq.conf")
    parser.add_argument("--data", metavar="FOLDER", default="", help="store what is durable here, not in memory")
    parser.add_argument("--parent", metavar="PID", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    reserved, port = reserve_port()
    try:
        config = build_config(options.set, port, options.data)
    except ConfigError as error:
        print(f"warren.testing: {error}", file=sys.stderr)
        return CONFIG_STATUS
    else:
        return serve(config, options.parent, options.data)
    finally:
        os.close(reserved)


def serve(config: Config, parent: int | None, data: str) -> int:
    """Run the broker until its input ends, and return the exit status.

    With a `parent` it ends with this process too, and then removes the folder around its data, which is the parent's.
    """
    from warren.broker import logs  # before app: logs imports structlog in its own way

    logs.configure(config.log, node=config.node)

    from warren.broker.app import main as app

    from .clock import MovableClock
    from .control import ControlService
    from .slow_network import SlowTransport

    service = ControlService(parent)
    status = app.serve(
        config, Sources(environment={}), app.DaemonParts(MovableClock, SlowTransport, {"testing": service})
    )
    if parent is not None and data and service.abandoned:
        shutil.rmtree(Path(data).parent, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
