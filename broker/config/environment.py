"""RabbitMQ's environment variables, which override files."""

import os
import re
from collections.abc import Iterator, Mapping

from ..system_errors import file_error, read_text
from .config import Config, default_node
from .rabbitmq_conf import path_of
from .setting import ConfigError, Setting

# variable -> key; each also as VARIABLE_FILE, the name of a file with the value (such as a container's secret)
ACCOUNT = {
    "RABBITMQ_DEFAULT_USER": "default_user",
    "RABBITMQ_DEFAULT_PASS": "default_pass",
    "RABBITMQ_DEFAULT_VHOST": "default_vhost",
}
OTHERS = (
    *("CONFIG_FILE", "CONFIG_FILES", "ENABLED_PLUGINS_FILE", "LOG", "LOGS", "MNESIA_BASE", "MNESIA_DIR"),
    *("NODENAME", "NODE_IP_ADDRESS", "NODE_PORT"),
)
READ = {*ACCOUNT, *(f"{variable}_FILE" for variable in ACCOUNT), *(f"RABBITMQ_{name}" for name in OTHERS)}
# Kubernetes and Docker describe a service that is called rabbitmq in such variables of all its neighbours.
SERVICE_LINK = re.compile(r"RABBITMQ_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_\w+)|RABBITMQ_PORT")
DEFAULT_PORT = "5672"
AUTO = "auto"  # the address of every interface


def defaults(environment: Mapping[str, str]) -> Config:
    """Return the defaults: AMQP on loopback, or on every interface with the address `auto`."""
    if environment.get("RABBITMQ_NODE_IP_ADDRESS") == AUTO:
        return Config(listeners_tcp=(("::", int(DEFAULT_PORT)),))
    return Config()


def settings(environment: Mapping[str, str]) -> Iterator[Setting]:
    """Yield the settings of the variables. Empty ones are ignored. Raises ConfigError."""
    for variable, key in ACCOUNT.items():
        text = _account(environment, variable)
        if text:
            yield Setting(path_of(key), text, f"environment {variable}")
    yield from _listener(environment)
    yield from _node(environment)
    file = environment.get("RABBITMQ_LOGS", "")
    if file:
        yield Setting(("log", "file"), "false" if file == "-" else file, "environment RABBITMQ_LOGS")
    yield from _log(environment.get("RABBITMQ_LOG", ""))


def ignored(environment: Mapping[str, str]) -> list[str]:
    """Return the names of variables that RabbitMQ, or a reader of its guides, would expect to have an effect."""
    names = (name for name, value in environment.items() if name.startswith("RABBITMQ_") and value)
    return sorted(name for name in names if name not in READ and not SERVICE_LINK.fullmatch(name))


def _account(environment: Mapping[str, str], variable: str) -> str:
    path = environment.get(variable + "_FILE", "")
    if not path:
        return environment.get(variable, "")
    if environment.get(variable):
        raise ConfigError(f"environment {variable}: both it and {variable}_FILE are set")
    try:
        return read_text(path).rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"environment {variable}_FILE: {file_error(error, path)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"environment {variable}_FILE: {path}: not UTF-8") from None


def _listener(environment: Mapping[str, str]) -> Iterator[Setting]:
    port, address = environment.get("RABBITMQ_NODE_PORT", ""), environment.get("RABBITMQ_NODE_IP_ADDRESS", "")
    if port or address not in ("", AUTO):
        variable = "RABBITMQ_NODE_PORT" if port else "RABBITMQ_NODE_IP_ADDRESS"
        text = port or DEFAULT_PORT
        if address not in ("", AUTO):
            text = f"[{address}]:{text}" if ":" in address else f"{address}:{text}"
        yield Setting(("listeners", "tcp", "default"), text, f"environment {variable}", replaces=True)


def _node(environment: Mapping[str, str]) -> Iterator[Setting]:
    name = environment.get("RABBITMQ_NODENAME", "")
    if name:
        name = name if "@" in name else name + "@" + default_node().partition("@")[2]
        yield Setting(("warren", "node"), name, "environment RABBITMQ_NODENAME")
    folder, base = environment.get("RABBITMQ_MNESIA_DIR", ""), environment.get("RABBITMQ_MNESIA_BASE", "")
    if folder:
        yield Setting(("warren", "data_dir"), folder, "environment RABBITMQ_MNESIA_DIR")
    elif base:
        path = os.path.join(base, name or default_node())
        yield Setting(("warren", "data_dir"), path, "environment RABBITMQ_MNESIA_BASE")


def _log(text: str) -> Iterator[Setting]:
    """Parse levels and switches such as `debug` or `connection=debug,+color,-json`."""
    origin = "environment RABBITMQ_LOG"
    for word in [word.strip() for word in text.split(",") if word.strip()]:
        category, equals, level = word.partition("=")
        if word in ("+json", "-json"):
            yield Setting(("log", "console", "formatter"), "json" if word == "+json" else "plaintext", origin)
        elif word in ("+color", "-color"):
            continue  # decided by the terminal and NO_COLOR
        elif equals:
            yield Setting(("log", category, "level"), level, origin)
        else:
            yield Setting(("log", "console", "level"), word, origin)
