"""The commands of rabbitmq-plugins, of which the API tells what is there and changes nothing."""

from __future__ import annotations

from ...control.answers import Report
from ...control.plugins import Plugins
from .request import Handler, HTTPCall


def plugins(call: HTTPCall) -> Plugins:
    version = str(call.api.get("overview", columns="rabbitmq_version")["rabbitmq_version"])
    return Plugins(call.node, version, list(call.api.get("nodes", call.node)["enabled_plugins"]), [])


def list_plugins(call: HTTPCall) -> Report:
    return plugins(call).listed(call)


def enable(call: HTTPCall) -> Report:
    """Of what is there."""
    return plugins(call).enable(call)


def is_enabled(call: HTTPCall) -> Report:
    return plugins(call).is_enabled(call)


COMMANDS: dict[str, Handler] = {"enable": enable, "is_enabled": is_enabled, "list": list_plugins}
