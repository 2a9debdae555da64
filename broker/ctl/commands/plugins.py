"""The commands of rabbitmq-plugins. None of them enables or disables a plugin, as nodes load plugins at the start only;
`enable` succeeds for an enabled plugin, so that scripts which call it keep working.
"""

import re

from ..call import Call
from ..command import PLUGINS
from ..errors import DATA, SOFTWARE, UNAVAILABLE, USAGE, CommandError
from ..formats import Report

IMPLIED = ("rabbitmq_management_agent", "rabbitmq_web_dispatch")  # RabbitMQ enables these as dependencies


def enabled_plugins(call: Call) -> list[str]:
    return sorted(call.get("nodes/{node}")["enabled_plugins"])


def list_plugins(call: Call) -> Report:
    """List plugins by pattern. Raises CommandError (65) for an invalid pattern."""
    version = str(call.get("overview", {"columns": "rabbitmq_version"})["rabbitmq_version"])
    enabled = enabled_plugins(call)
    # Only the unix socket returns the plugins that are not enabled.
    others = call.get("warren/node")["known_plugins"] if call.api.is_local else []
    text = call.arguments[0] if call.arguments else ".*"
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise CommandError(DATA, f"'{text}' is no regular expression: {error}") from None
    names = [name for name in sorted({*enabled, *others}) if pattern.search(name)]
    if call.flag("implicitly-enabled"):
        names = [name for name in names if name in enabled]
    elif call.flag("enabled"):
        names = [name for name in names if name in enabled and name not in IMPLIED]
    if call.flag("minimal"):
        return Report("\n".join(names), {"format": "minimal", "plugins": [{"name": name} for name in names]})
    implied = {name: "implicit" if name in IMPLIED else "enabled" for name in enabled}
    states = {name: implied.get(name, "not_enabled") for name in names}
    marks = {"not_enabled": "  ", "implicit": "e*", "enabled": "E*"}
    width = max(map(len, names), default=0)
    lines = [f"[{marks[state]}] {name:<{width}} {version}" for name, state in states.items()]
    if not (call.flag("quiet") or call.flag("silent")):
        legend = " Configured: E = explicitly enabled; e = implicitly enabled"
        lines = [legend, f" | Status: * = running on {call.node}", " |/", *lines]
    versions = {"version": version, "running_version": version}
    rows = [{"name": name, "enabled": state, "running": name in enabled, **versions} for name, state in states.items()]
    return Report("\n".join(lines), {"format": "normal", "plugins": rows})


def switch_banner(call: Call) -> str:
    doing = "Disabling" if call.command == "disable" else "Enabling"
    return "\n".join([f"{doing} plugins on node {call.node}:", *call.arguments])


def switch(call: Call) -> Report:
    """Change nothing, and confirm that plugins to enable are enabled. Raises CommandError (64, 65, 70)."""
    enabled = enabled_plugins(call)
    if not call.arguments and not call.flag("all"):
        raise CommandError(USAGE, "not enough arguments.", argument=True)
    missing = [name for name in call.arguments if name not in enabled]
    if missing and call.command != "disable":
        status = DATA if call.command == "set" else SOFTWARE
        raise CommandError(status, f"The following plugins were not found: {', '.join(missing)}")
    lines = ["The following plugins have been configured:", *(f"  {name}" for name in enabled)]
    lines += [f"Applying plugin configuration to {call.node}...", "Plugin configuration unchanged."]
    value = {"mode": "online", "node": call.node, "enabled": enabled, "set": enabled, "started": [], "stopped": []}
    return Report("\n".join(lines), value)


SWITCH = "[--all] [--offline] [--online] [<plugin>...]"


def subject(names: list[str]) -> str:
    return f"plugin {names[0]} is" if len(names) == 1 else f"plugins {', '.join(names)} are"


def is_enabled(call: Call) -> Report:
    """Confirm that the plugins are enabled. Raises CommandError (69)."""
    enabled = enabled_plugins(call)
    missing = [name for name in call.arguments if name not in enabled]
    if missing:
        text = f"P{subject(missing)[1:]} not enabled on node {call.node}."
        raise CommandError(UNAVAILABLE, f"{text} Enabled plugins and dependencies: {', '.join(enabled)}")
    text = f"P{subject(call.arguments)[1:]} enabled on node {call.node}"
    return Report(text, {"message": text, "result": "ok"})


# fmt: off
PLUGINS("list [--verbose] [--minimal] [--enabled] [--implicitly-enabled] [<pattern>]: "
        "Lists plugins by RabbitMQ's names",
        lambda call: f'Listing plugins with pattern "{call.arguments[0] if call.arguments else ".*"}" ...',
        list_plugins, short={"enabled": "-E", "implicitly-enabled": "-e", "minimal": "-m", "verbose": "-v"})
PLUGINS.local(f"disable {SWITCH}: Does nothing: plugins stay enabled", switch_banner, switch)
PLUGINS(f"enable {SWITCH}: Fails if plugins are not enabled", switch_banner, switch)
PLUGINS.local("set [--offline] [--online] <plugin>...: Fails if plugins are not enabled", switch_banner, switch)
PLUGINS("is_enabled [--offline] [--online] <plugin>...: Fails if plugins are not enabled",
        lambda call: f"Asking node {call.node} if {subject(call.arguments)} enabled...", is_enabled)
