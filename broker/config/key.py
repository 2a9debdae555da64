"""A key of the configuration: how it is called, what it takes, and which value it becomes."""

from __future__ import annotations

from .setting import Path
from .value_types import Choice, Kind

ANY = "$"  # an element that is chosen freely: a number, or a name

ONE = "one"  # the value of the field
LIST = "list"  # a value for each number or name, in their order
NAMES = "names"  # the names whose value is true
MAP = "map"  # name -> value
NONE = "none"  # the word none: the field is empty, whatever else is said of it

EMPTY = Choice({"none": None})


class Key:
    """`field` is where its value goes in Config, `ssl_options.verify` for one in a part of it, and empty where
    it only has to be one of those that there are. A `secret` is not shown.
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
        """What stands for the free elements; empty where there are none, None where the path is not of this key."""
        if len(path) != len(self.path):
            return None
        free = []
        for ours, theirs in zip(self.path, path, strict=True):
            if ours == ANY:
                free.append(theirs)
            elif ours != theirs:
                return None
        return ".".join(free)
