"""The commands of rabbitmq-plugins, which only read from the API."""

from __future__ import annotations

from ..answers import Report
from ..plugin_lists import Plugins
from .call import Call, Handler


def plugins(call: Call) -> Plugins:
    version = str(call.api.get("overview", columns="rabbitmq_version")["rabbitmq_version"])
    return Plugins(call.node, version, list(call.api.get("nodes", call.node)["enabled_plugins"]), known(call))


def known(call: Call) -> list[str]:
    """Return the plugins that the node could run; only the unix socket has them."""
    return list(call.api.get("warren", "node")["known_plugins"]) if call.is_local else []


def list_plugins(call: Call) -> Report:
    return plugins(call).table(call)


def enable(call: Call) -> Report:
    return plugins(call).enable(call)


def is_enabled(call: Call) -> Report:
    return plugins(call).is_enabled(call)


def disable(call: Call) -> Report:
    return plugins(call).disable(call)


COMMANDS: dict[str, Handler] = {
    "disable": disable,
    "enable": enable,
    "is_enabled": is_enabled,
    "list": list_plugins,
    "set": enable,
}
