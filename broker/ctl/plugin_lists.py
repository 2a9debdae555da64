"""The commands of rabbitmq-plugins. What RabbitMQ has as plugins is here from the start, or installed beside: nothing
is switched on or off, and scripts that enable what is there go on. It knows no node.
"""

from __future__ import annotations

import re

from .answers import DATA, SOFTWARE, UNAVAILABLE, USAGE, Refused, Report
from .question import Question

IMPLIED = ("rabbitmq_management_agent", "rabbitmq_web_dispatch")  # enabled in RabbitMQ by what needs them


class Plugins:
    """Those that a node has, `on`, and those that are known besides."""

    def __init__(self, node: str, version: str, on: list[str], known: list[str]) -> None:
        self._node = node
        self._version = version
        self._on = sorted(on)
        self._known = sorted({*on, *known})

    def listed(self, question: Question) -> Report:
        """Raises Refused (65) for a pattern that is none."""
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
        told = [{"name": name, "enabled": self._state(name), "running": name in self._on, **versions} for name in names]
        return Report("\n".join(lines if quiet else legend + lines), {"format": "normal", "plugins": told})

    def _chosen(self, question: Question) -> list[str]:
        try:
            pattern = re.compile(question.arguments[0] if question.arguments else ".*")
        except re.error as error:
            raise Refused(DATA, f"'{question.arguments[0]}' is no regular expression: {error}") from None
        names = [name for name in self._known if pattern.search(name)]
        if question.flag("implicitly-enabled"):
            return [name for name in names if name in self._on]
        if question.flag("enabled"):
            return [name for name in names if name in self._on and name not in IMPLIED]
        return names

    def _state(self, name: str) -> str:
        return "not_enabled" if name not in self._on else "implicit" if name in IMPLIED else "enabled"

    def _marks(self, name: str) -> str:
        return {"not_enabled": "  ", "implicit": "e*", "enabled": "E*"}[self._state(name)]

    def enable(self, question: Question) -> Report:
        """Raises Refused (64, 65, 70): for none, and for those that this broker does not have."""
        check_given(question)
        missing = [name for name in question.arguments if name not in self._on]
        if missing:
            status = DATA if question.command == "set" else SOFTWARE
            raise Refused(status, f"The following plugins were not found: {', '.join(missing)}")
        return self._unchanged()

    def disable(self, question: Question) -> Report:
        """What is there stays. Raises Refused (64)."""
        check_given(question)
        return self._unchanged()

    def _unchanged(self) -> Report:
        lines = ["The following plugins have been configured:", *(f"  {name}" for name in self._on)]
        lines += [f"Applying plugin configuration to {self._node}...", "Plugin configuration unchanged."]
        told = {"mode": "online", "node": self._node, "enabled": self._on, "set": self._on}
        return Report("\n".join(lines), {**told, "started": [], "stopped": []})

    def is_enabled(self, question: Question) -> Report:
        """Raises Refused (69)."""
        missing = [name for name in question.arguments if name not in self._on]
        if missing:
            enabled = f"Enabled plugins and dependencies: {', '.join(self._on)}"
            raise Refused(UNAVAILABLE, f"{told(missing)} not enabled on node {self._node}. {enabled}")
        text = f"{told(question.arguments)} enabled on node {self._node}"
        return Report(text, {"message": text, "result": "ok"})


def check_given(question: Question) -> None:
    if not question.arguments and not question.flag("all"):
        raise Refused(USAGE, "not enough arguments.", argument=True)


def told(names: list[str]) -> str:
    return f"Plugin {names[0]} is" if len(names) == 1 else f"Plugins {', '.join(names)} are"
