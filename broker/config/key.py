"""A key of the configuration: its name, the type of its value, and its field in Config."""

from __future__ import annotations

from .setting import Path
from .value_types import Choice, Kind

ANY = "$"  # a free element: a number or a name

ONE = "one"  # the value of the field
LIST = "list"  # a value for each number or name, in their order
NAMES = "names"  # the names whose value is true
MAP = "map"  # name -> value
NONE = "none"  # the word none: the field is empty, whatever other settings it has

EMPTY = Choice({"none": None})


class Key:
    """A key of the configuration.

    field   its field in Config, or in a part of it as `ssl_options.verify`; empty if the value is only checked
    shape   one of ONE, LIST, NAMES, MAP, NONE
    doc     comment in the reference of all keys
    secret  whether its value is never shown
    """

    __slots__ = ("path", "kind", "field", "shape", "doc", "secret")

    def __init__(self, key: str, kind: Kind, field: str, doc: str, shape: str = ONE, secret: bool = False) -> None:
        self.path: Path = tuple(key.split("."))
        self.kind = kind
        self.field = field
        self.shape = shape
        self.doc = doc
        self.secret = secret

    def names(self, path: Path) -> str | None:
        """Return the names in place of the free elements, empty if there are none; None for a path of another key."""
        if len(path) != len(self.path):
            return None
        free = []
        for ours, theirs in zip(self.path, path, strict=True):
            if ours == ANY:
                free.append(theirs)
            elif ours != theirs:
                return None
        return ".".join(free)
