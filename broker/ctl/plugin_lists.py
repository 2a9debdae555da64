"""The results of the commands of rabbitmq-plugins. All plugins are always enabled, so no command changes anything;
`enable` succeeds for a plugin of the node, so that scripts which call it keep working.
"""

from __future__ import annotations

import re

from .answers import CommandError, Report
from .exit_status import DATA, SOFTWARE, UNAVAILABLE, USAGE
from .question import Question

IMPLIED = ("rabbitmq_management_agent", "rabbitmq_web_dispatch")  # RabbitMQ enables these as dependencies


class Plugins:
    """The enabled plugins of a node, and the others that it could run."""

    def __init__(self, node: str, version: str, enabled: list[str], known: list[str]) -> None:
        self._node = node
        self._version = version
        self._enabled = sorted(enabled)
        self._known = sorted({*enabled, *known})

    def table(self, question: Question) -> Report:
        """List plugins by pattern. Raises CommandError (65) for an invalid pattern."""
        names = self._chosen(question)
        if question.flag("minimal"):
            return Report("\n".join(names), {"format": "minimal", "plugins": [{"name": name} for name in names]})
        legend = [
            " Configured: E = explicitly enabled; e = implicitly enabled",
            f" | Status: * = running on {self._node}",
            " |/",
        ]
        width = max(map(len, names), default=0)
        lines = [f"[{self._marks(name)}] {name:<{width}} {self._version}" for name in names]
        quiet = question.flag("quiet") or question.flag("silent")
        versions = {"version": self._version, "running_version": self._version}
        value = [
            {"name": name, "enabled": self._state(name), "running": name in self._enabled, **versions} for name in names
        ]
        return Report("\n".join(lines if quiet else legend + lines), {"format": "normal", "plugins": value})

    def _chosen(self, question: Question) -> list[str]:
        try:
            pattern = re.compile(question.arguments[0] if question.arguments else ".*")
        except re.error as error:
            raise CommandError(DATA, f"'{question.arguments[0]}' is no regular expression: {error}") from None
        names = [name for name in self._known if pattern.search(name)]
        if question.flag("implicitly-enabled"):
            return [name for name in names if name in self._enabled]
        if question.flag("enabled"):
            return [name for name in names if name in self._enabled and name not in IMPLIED]
        return names

    def _state(self, name: str) -> str:
        return "not_enabled" if name not in self._enabled else "implicit" if name in IMPLIED else "enabled"

    def _marks(self, name: str) -> str:
        return {"not_enabled": "  ", "implicit": "e*", "enabled": "E*"}[self._state(name)]

    def enable(self, question: Question) -> Report:
        """Confirm that the plugins are enabled. Raises CommandError (64, 65, 70)."""
        check_given(question)
        missing = [name for name in question.arguments if name not in self._enabled]
        if missing:
            status = DATA if question.command == "set" else SOFTWARE
            raise CommandError(status, f"The following plugins were not found: {', '.join(missing)}")
        return self._unchanged()

    def disable(self, question: Question) -> Report:
        """Change nothing. Raises CommandError (64) without arguments."""
        check_given(question)
        return self._unchanged()

    def _unchanged(self) -> Report:
        lines = ["The following plugins have been configured:", *(f"  {name}" for name in self._enabled)]
        lines += [f"Applying plugin configuration to {self._node}...", "Plugin configuration unchanged."]
        value = {"mode": "online", "node": self._node, "enabled": self._enabled, "set": self._enabled}
        return Report("\n".join(lines), {**value, "started": [], "stopped": []})

    def is_enabled(self, question: Question) -> Report:
        """Confirm that the plugins are enabled. Raises CommandError (69)."""
        missing = [name for name in question.arguments if name not in self._enabled]
        if missing:
            enabled = f"Enabled plugins and dependencies: {', '.join(self._enabled)}"
            raise CommandError(UNAVAILABLE, f"{subject(missing)} not enabled on node {self._node}. {enabled}")
        text = f"{subject(question.arguments)} enabled on node {self._node}"
        return Report(text, {"message": text, "result": "ok"})


def check_given(question: Question) -> None:
    if not question.arguments and not question.flag("all"):
        raise CommandError(USAGE, "not enough arguments.", argument=True)


def subject(names: list[str]) -> str:
    return f"Plugin {names[0]} is" if len(names) == 1 else f"Plugins {', '.join(names)} are"
