"""The commands of rabbitmq-plugins. What RabbitMQ has as plugins is here from the start, or installed beside: nothing
is switched on or off, and scripts that enable what is there go on.
"""

from __future__ import annotations

import re

from .answers import DATA, SOFTWARE, UNAVAILABLE, USAGE, Refused, Report
from .call import Call, Handler

ALWAYS = ("rabbitmq_auth_mechanism_ssl", "rabbitmq_event_exchange", "rabbitmq_message_deduplication")
OF_SERVICES = {
    "rabbitmq_federation": "federation",
    "rabbitmq_federation_management": "federation",
    "rabbitmq_management": "management",
    "rabbitmq_management_agent": "management",
    "rabbitmq_prometheus": "prometheus",
    "rabbitmq_web_dispatch": "management",
}
OF_TYPES = {
    "rabbitmq_consistent_hash_exchange": "x-consistent-hash",
    "rabbitmq_delayed_message_exchange": "x-delayed-message",
    "rabbitmq_presence_exchange": "x-presence",
    "rabbitmq_random_exchange": "x-random",
    "rabbitmq_recent_history_exchange": "x-recent-history",
    "rabbitmq_sharding": "x-modulus-hash",
}
IMPLIED = ("rabbitmq_management_agent", "rabbitmq_web_dispatch")  # enabled in RabbitMQ by what needs them


def known() -> list[str]:
    """By RabbitMQ's names."""
    return sorted((*ALWAYS, *OF_SERVICES, *OF_TYPES))


def running(call: Call) -> list[str]:
    """Those that this broker has."""
    services = [name for name, service in OF_SERVICES.items() if service in call.host.services]
    types = call.node.registry.names()
    return sorted((*ALWAYS, *services, *(name for name, type_ in OF_TYPES.items() if type_ in types)))


def list_plugins(call: Call) -> Report:
    """Raises Refused (65) for a pattern that is none."""
    try:
        pattern = re.compile(call.arguments[0] if call.arguments else ".*")
    except re.error as error:
        raise Refused(DATA, f"'{call.arguments[0]}' is no regular expression: {error}") from None
    on = running(call)
    names = [name for name in known() if pattern.search(name)]
    if call.flag("enabled") or call.flag("implicitly-enabled"):
        names = [name for name in names if name in on]
    if call.flag("enabled") and not call.flag("implicitly-enabled"):
        names = [name for name in names if name not in IMPLIED]
    version = call.node.version
    versions = {"version": version, "running_version": version}
    value = [{"name": name, "enabled": state(name, on), "running": name in on, **versions} for name in names]
    if call.flag("minimal"):
        return Report("\n".join(names), {"format": "minimal", "plugins": [{"name": name} for name in names]})
    legend = [
        " Configured: E = explicitly enabled; e = implicitly enabled",
        f" | Status: * = running on {call.node.name}",
        " |/",
    ]
    width = max(map(len, names), default=0)
    lines = [f"[{marks(name, on)}] {name:<{width}} {version}" for name in names]
    quiet = call.flag("quiet") or call.flag("silent")
    return Report("\n".join(lines if quiet else legend + lines), {"format": "normal", "plugins": value})


def state(name: str, on: list[str]) -> str:
    return "not_enabled" if name not in on else "implicit" if name in IMPLIED else "enabled"


def marks(name: str, on: list[str]) -> str:
    return {"not_enabled": "  ", "implicit": "e*", "enabled": "E*"}[state(name, on)]


def enable(call: Call) -> Report:
    """Raises Refused (64, 65, 70): for none, and for those that this broker does not have."""
    check_given(call)
    on = running(call)
    missing = [name for name in call.arguments if name not in on]
    if missing:
        status = DATA if call.command == "set" else SOFTWARE
        raise Refused(status, f"The following plugins were not found: {', '.join(missing)}")
    return unchanged(call)


def check_given(call: Call) -> None:
    if not call.arguments and not call.flag("all"):
        raise Refused(USAGE, "not enough arguments.", argument=True)


def disable(call: Call) -> Report:
    """What is there stays. Raises Refused (64)."""
    check_given(call)
    return unchanged(call)


def unchanged(call: Call) -> Report:
    on, node = running(call), call.node.name
    lines = ["The following plugins have been configured:", *(f"  {name}" for name in on)]
    lines += [f"Applying plugin configuration to {node}...", "Plugin configuration unchanged."]
    value = {"mode": "online", "node": node, "enabled": on, "set": on, "started": [], "stopped": []}
    return Report("\n".join(lines), value)


def is_enabled(call: Call) -> Report:
    """Raises Refused (69)."""
    node, on = call.node.name, running(call)
    missing = [name for name in call.arguments if name not in on]
    if missing:
        text = f"{told(missing)} not enabled on node {node}. Enabled plugins and dependencies: {', '.join(on)}"
        raise Refused(UNAVAILABLE, text)
    text = f"{told(call.arguments)} enabled on node {node}"
    return Report(text, {"message": text, "result": "ok"})


def told(names: list[str]) -> str:
    return f"Plugin {names[0]} is" if len(names) == 1 else f"Plugins {', '.join(names)} are"


COMMANDS: dict[str, Handler] = {
    "list": list_plugins,
    "enable": enable,
    "disable": disable,
    "set": enable,
    "is_enabled": is_enabled,
}
