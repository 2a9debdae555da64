"""The commands of rabbitmq-plugins, of which the API tells what is there and changes nothing."""

from __future__ import annotations

from ..answers import Report
from ..plugin_lists import Plugins
from .call import Call, Handler


def plugins(call: Call) -> Plugins:
    version = str(call.api.get("overview", columns="rabbitmq_version")["rabbitmq_version"])
    return Plugins(call.node, version, list(call.api.get("nodes", call.node)["enabled_plugins"]), known(call))


def known(call: Call) -> list[str]:
    """The plugins that the node may run, of which only the unix socket tells."""
    return list(call.api.get("warren", "node")["known_plugins"]) if call.is_local else []


def list_plugins(call: Call) -> Report:
    return plugins(call).listed(call)


def enable(call: Call) -> Report:
    """Of what is there."""
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
