"""What of RabbitMQ's plugins this broker has, by RabbitMQ's names."""

from __future__ import annotations

from ..hosting.feature_flags import PLUGINS, PLUGINS_OF_SERVICES, PLUGINS_OF_TYPES
from .answers import Report
from .call import Call, Handler
from .plugins import Plugins


def plugins(call: Call) -> Plugins:
    return Plugins(
        call.node.name, call.node.version, call.host.plugins(), [*PLUGINS, *PLUGINS_OF_SERVICES, *PLUGINS_OF_TYPES]
    )


def list_plugins(call: Call) -> Report:
    return plugins(call).listed(call)


def enable(call: Call) -> Report:
    return plugins(call).enable(call)


def disable(call: Call) -> Report:
    return plugins(call).disable(call)


def is_enabled(call: Call) -> Report:
    return plugins(call).is_enabled(call)


COMMANDS: dict[str, Handler] = {
    "disable": disable,
    "enable": enable,
    "is_enabled": is_enabled,
    "list": list_plugins,
    "set": enable,
}
