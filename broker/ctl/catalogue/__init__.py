"""The usage, help and banner of all commands, by group and by name."""

from __future__ import annotations

from ..command import Command
from . import diagnostics, operations, users_and_access

GROUPS: dict[str, list[Command]] = {**users_and_access.GROUPS, **operations.GROUPS, **diagnostics.GROUPS}
COMMANDS: dict[str, Command] = {command.name: command for group in GROUPS.values() for command in group}
