"""The commands of rabbitmq-plugins. None of them enables or disables a plugin, as nodes load plugins at the start only;
`enable` succeeds for an enabled plugin, so that scripts which call it keep working.
"""

from __future__ import annotations

import re

from ..answers import CommandError, Report
from ..exit_status import DATA, SOFTWARE, UNAVAILABLE, USAGE
from .call import Call, Handler

IMPLIED = ("rabbitmq_management_agent", "rabbitmq_web_dispatch")  # RabbitMQ enables these as dependencies


class Plugins:
    """The enabled plugins of a node, and the others that it could run."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._version = str(call.api.get("overview", columns="rabbitmq_version")["rabbitmq_version"])
        self._enabled = sorted(call.api.get("nodes", call.node)["enabled_plugins"])
        # Only the unix socket returns the plugins that are not enabled.
        others = call.api.get("warren", "node")["known_plugins"] if call.is_local else []
        self._known = sorted({*self._enabled, *others})

    def table(self) -> Report:
        """List plugins by pattern. Raises CommandError (65) for an invalid pattern."""
        names = self._select()
        if self._call.flag("minimal"):
            return Report("\n".join(names), {"format": "minimal", "plugins": [{"name": name} for name in names]})
        legend = [
            " Configured: E = explicitly enabled; e = implicitly enabled",
            f" | Status: * = running on {self._call.node}",
            " |/",
        ]
        width = max(map(len, names), default=0)
        lines = [f"[{self._marks(name)}] {name:<{width}} {self._version}" for name in names]
        quiet = self._call.flag("quiet") or self._call.flag("silent")
        versions = {"version": self._version, "running_version": self._version}
        value = [
            {"name": name, "enabled": self._state(name), "running": name in self._enabled, **versions} for name in names
        ]
        return Report("\n".join(lines if quiet else legend + lines), {"format": "normal", "plugins": value})

    def _select(self) -> list[str]:
        try:
            pattern = re.compile(self._call.arguments[0] if self._call.arguments else ".*")
        except re.error as error:
            raise CommandError(DATA, f"'{self._call.arguments[0]}' is no regular expression: {error}") from None
        names = [name for name in self._known if pattern.search(name)]
        if self._call.flag("implicitly-enabled"):
            return [name for name in names if name in self._enabled]
        if self._call.flag("enabled"):
            return [name for name in names if name in self._enabled and name not in IMPLIED]
        return names

    def _state(self, name: str) -> str:
        return "not_enabled" if name not in self._enabled else "implicit" if name in IMPLIED else "enabled"

    def _marks(self, name: str) -> str:
        return {"not_enabled": "  ", "implicit": "e*", "enabled": "E*"}[self._state(name)]

    def enable(self) -> Report:
        """Confirm that the plugins are enabled. Raises CommandError (64, 65, 70)."""
        self._check_arguments()
        missing = [name for name in self._call.arguments if name not in self._enabled]
        if missing:
            status = DATA if self._call.command == "set" else SOFTWARE
            raise CommandError(status, f"The following plugins were not found: {', '.join(missing)}")
        return self._unchanged()

    def disable(self) -> Report:
        """Change nothing. Raises CommandError (64) without arguments."""
        self._check_arguments()
        return self._unchanged()

    def _check_arguments(self) -> None:
        if not self._call.arguments and not self._call.flag("all"):
            raise CommandError(USAGE, "not enough arguments.", argument=True)

    def _unchanged(self) -> Report:
        lines = ["The following plugins have been configured:", *(f"  {name}" for name in self._enabled)]
        lines += [f"Applying plugin configuration to {self._call.node}...", "Plugin configuration unchanged."]
        value = {"mode": "online", "node": self._call.node, "enabled": self._enabled, "set": self._enabled}
        return Report("\n".join(lines), {**value, "started": [], "stopped": []})

    def is_enabled(self) -> Report:
        """Confirm that the plugins are enabled. Raises CommandError (69)."""
        missing = [name for name in self._call.arguments if name not in self._enabled]
        if missing:
            enabled = f"Enabled plugins and dependencies: {', '.join(self._enabled)}"
            raise CommandError(UNAVAILABLE, f"{subject(missing)} not enabled on node {self._call.node}. {enabled}")
        text = f"{subject(self._call.arguments)} enabled on node {self._call.node}"
        return Report(text, {"message": text, "result": "ok"})


def subject(names: list[str]) -> str:
    return f"Plugin {names[0]} is" if len(names) == 1 else f"Plugins {', '.join(names)} are"


COMMANDS: dict[str, Handler] = {
    "disable": lambda call: Plugins(call).disable(),
    "enable": lambda call: Plugins(call).enable(),
    "is_enabled": lambda call: Plugins(call).is_enabled(),
    "list": lambda call: Plugins(call).table(),
    "set": lambda call: Plugins(call).enable(),
}
