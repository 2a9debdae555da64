"""What was said of a key, and where, before anybody has asked whether there is such a key."""

from __future__ import annotations

from .errors import ConfigError

Path = tuple[str, ...]
"""A key, cut at its dots: an element may have dots of its own, such as the name of a user."""


class Setting:
    """`replaces` does away with all that files say of the same list."""

    __slots__ = ("path", "text", "origin", "replaces")

    def __init__(self, path: Path, text: str, origin: str, replaces: bool = False) -> None:
        self.path = path
        self.text = text
        self.origin = origin
        self.replaces = replaces

    def wrong(self, reason: str) -> ConfigError:
        """The error that says so of this setting."""
        return ConfigError(f"{self.origin}: {joined(self.path)}: {reason}")


def joined(path: Path) -> str:
    """The key as it is written, with the dots of an element escaped."""
    return ".".join([element.replace(".", "\\.") for element in path])
