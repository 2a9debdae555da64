"""A setting: the text of one key at one place of the configuration, before the key is looked up; and its error."""

from dataclasses import dataclass

from .value_types import shown

Path = tuple[str, ...]
"""The elements of a key between its dots; an element such as a user's name may contain dots."""


class ConfigError(Exception):
    """A configuration that cannot be used. Its text is one line: the place (file and line, variable or option), the key
    and the fault."""


@dataclass(slots=True, eq=False)
class Setting:
    """A setting. `origin` is its place for error texts; `replaces` drops what files have set for the same list."""

    path: Path
    text: str
    origin: str
    replaces: bool = False

    def wrong(self, reason: str) -> ConfigError:
        """Return the error for this setting."""
        return ConfigError(f"{self.origin}: {shown(dotted(self.path))}: {reason}")


def dotted(path: Path) -> str:
    """Return a key as it is written, with the dots of an element escaped."""
    return ".".join([element.replace(".", "\\.") for element in path])
