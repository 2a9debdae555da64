"""All commands, by group and by name."""

from __future__ import annotations

from . import administration, diagnostics, operation
from .command import Command

GROUPS: dict[str, list[Command]] = {**administration.GROUPS, **operation.GROUPS, **diagnostics.GROUPS}
COMMANDS: dict[str, Command] = {command.name: command for group in GROUPS.values() for command in group}
