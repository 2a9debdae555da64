"""Definitions in files of JSON, which a broker takes in when it starts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ...amqp.errors import OperatorError
from ..node.node import Node
from .exporter import IMPORTED_HASH
from .importer import imported


class DefinitionsError(Exception):
    """One line that says which file cannot be loaded, and why."""


def parsed(octets: bytes) -> object:
    """The value of a JSON text, in front of which a byte order mark may stand. Raises ValueError."""
    try:
        # With a hook for each object, as threads that need the interpreter get it there: the scanner itself keeps it.
        value: object = json.loads(octets.decode("utf-8-sig"), parse_constant=no_number, object_pairs_hook=map_of_pairs)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def map_of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(pairs)


def no_number(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def read(place: Path) -> dict[Path, bytes]:
    """The file; or of a folder each `*.json`, by name. Raises DefinitionsError."""
    try:
        files = sorted(place.glob("*.json")) if place.is_dir() else [place]
        return {file: file.read_bytes() for file in files}
    except OSError as error:
        raise DefinitionsError(f"{error.filename or place}: {error.strerror or error}") from None


def digest(texts: dict[Path, bytes]) -> str:
    """Of what the files say, whatever they are called."""
    return hashlib.sha256(b"".join([hashlib.sha256(text).digest() for text in texts.values()])).hexdigest()


def load(node: Node, place: Path, skip_if_unchanged: bool = False) -> list[str] | None:
    """Import all of it; what was left out, a line each. None where it is what was imported the last time and that is
    to be skipped. Raises DefinitionsError; files before the bad one may be in the node by then, which has to end."""
    texts = read(place)
    found = digest(texts)
    if skip_if_unchanged and node.parameters.globals().get(IMPORTED_HASH) == found:
        return None
    lines: list[str] = []
    for file, octets in texts.items():
        try:
            lines += imported(node, parsed(octets))
        except ValueError as error:
            raise DefinitionsError(f"{file}: failed to parse JSON: {error}") from None
        except OperatorError as error:
            raise DefinitionsError(f"{file}: {' '.join(error.text.split())}") from None
    if skip_if_unchanged:
        node.parameters.set_global(IMPORTED_HASH, found)
    return lines
