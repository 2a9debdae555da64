"""The broker for tests as a program: `python -m warren.testing [--set KEY=VALUE]...`.

It prints one line of JSON with its addresses when it is ready, serves the controls of `control`, and ends with its
input, or by SIGTERM. It is the daemon of `warren serve` with another clock and another transport. Nothing that
`warren serve` can be given loads them or the controls.
"""

import argparse
import socket
import sys
from collections.abc import Sequence

from warren.broker.config import Config, ConfigError, Sources
from warren.broker.config.builder import ConfigBuilder
from warren.broker.config.rabbitmq_conf import path_of
from warren.broker.config.setting import Setting

HOST = "127.0.0.1"
# A password is hashed at the start and with each login: as quickly as possible here.
DEFAULTS = (
    *("warren.memory=true", "warren.node=warren@testing", "password_hashing_module=rabbit_password_hashing_sha256"),
    *(f"management.tcp.ip={HOST}", "management.tcp.port=0", f"prometheus.tcp.ip={HOST}", "prometheus.tcp.port=0"),
    "log.console.formatter=plaintext",
)
LISTENERS = "listeners."  # the beginning of the keys of listeners
CONFIG_STATUS = 78  # EX_CONFIG of sysexits.h


def reserve_port() -> socket.socket:
    """Return a socket that is bound to a free port, and does not listen.

    As long as it is open, no other process gets the port, while the broker can listen there, and again after a pause.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved


def parsed(text: str) -> Setting:
    """Return the setting that a text KEY=VALUE has."""
    key, _, value = text.partition("=")
    return Setting(path_of(key.strip()), value.strip(), f"command line: --set {text}")


def build_config(chosen: Sequence[str], port: int) -> Config:
    """Return the configuration with these settings; it listens at the port unless they have listeners."""
    builder = ConfigBuilder()
    builder.add_all(map(parsed, DEFAULTS))
    if not any(text.startswith(LISTENERS) for text in chosen):
        builder.add(parsed(f"listeners.tcp.1={HOST}:{port}"))
    builder.add_all(map(parsed, chosen))
    return builder.config(Config())


def main() -> int:
    """Run the broker, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m warren.testing", description="A broker for tests, in memory.")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a key of rabbitmq.conf")
    parser.add_argument("--parent", metavar="PID", type=int, help="end with this process, not only with the input")
    options = parser.parse_args()
    with reserve_port() as reserved:
        try:
            config = build_config(options.set, reserved.getsockname()[1])
        except ConfigError as error:
            print(f"warren.testing: {error}", file=sys.stderr)
            return CONFIG_STATUS
        return serve(config, options.parent)


def serve(config: Config, parent: int | None) -> int:
    """Run the broker until its input ends, and return the exit status."""
    from warren.broker import logs  # before app: logs imports structlog in its own way

    logs.configure(config.log, node=config.node)

    from warren.broker.app import main as app

    from .clock import MovableClock
    from .control import ControlService
    from .slow_network import SlowTransport

    parts = app.DaemonParts(MovableClock, SlowTransport, {"testing": ControlService(parent)})
    return app.serve(config, Sources(environment={}), parts)


if __name__ == "__main__":
    sys.exit(main())
