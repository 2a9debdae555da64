"""Definitions in JSON files, which a broker imports when it starts."""

import hashlib
import json
import sys
from pathlib import Path

from ...amqp.errors import Invalid, OperatorError
from ...system_errors import DEFINITIONS_LIMIT, file_error, read_bytes
from ..metadata.unfinished_import import UNFINISHED_IMPORT, digest_of, was_interrupted
from ..metadata.validation import NESTED_LIMIT, check_depth
from ..node.node import Node
from .entry import VALUES_LIMIT
from .exporter import IMPORTED_HASH
from .importer import import_definitions
from .release import RELEASED, finish, release

WHITESPACE = " \t\n\r"  # of JSON


class DefinitionsError(Exception):
    """A line that says which file cannot be loaded, and why."""


class BeyondLimit(ValueError):
    """A limit that a JSON text exceeds."""


def parse_json(data: bytes) -> object:
    """Return the value of a JSON text, which may begin with a byte order mark. Raises ValueError, Invalid.

    It may run in a thread: other threads get the interpreter, which the scanner alone would keep, in between.
    """
    maps: list[dict[str, object]] = []  # not freed by the scanner, which would free those of a broken text at once
    unused: list[object] = []  # values of keys that come again, and of an object with too many fields

    def map_of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(pairs) > VALUES_LIMIT:
            unused.extend(value for _, value in pairs)
            raise Invalid(f"an object of JSON may have {VALUES_LIMIT} fields")
        made = dict(pairs)
        if len(made) < len(pairs):
            unused.extend(value for key, value in pairs if value is not made[key])
        maps.append(made)
        return made

    decoder = json.JSONDecoder(parse_constant=reject_constant, parse_int=integer_of, object_pairs_hook=map_of_pairs)
    value: object = None
    whole = False
    try:
        text = data.decode("utf-8-sig").strip(WHITESPACE)
        value, end = decoder.raw_decode(text)
        whole = end == len(text)
        if not whole:
            raise json.JSONDecodeError("Extra data", text, end)
    except RecursionError:
        raise BeyondLimit(f"nested more than {NESTED_LIMIT} deep") from None
    finally:
        finish(release(unused) if whole else release(unused, maps, value))
        while maps:
            del maps[-RELEASED:]
    return value


def integer_of(digits: str) -> int:
    """Return the value of digits, which lets other threads run: of thousands it takes long. Raises BeyondLimit."""
    try:
        return int(digits)
    except ValueError:
        raise BeyondLimit(too_many_digits()) from None


def too_many_digits() -> str:
    return f"a number may have {sys.get_int_max_str_digits()} digits"


def reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def read(place: Path) -> dict[Path, bytes]:
    """Return the text of the file, or of each `*.json` in a folder, by name. Raises DefinitionsError."""
    try:
        files = sorted(place.glob("*.json")) if place.is_dir() else [place]
        return {file: read_bytes(file, DEFINITIONS_LIMIT) for file in files}
    except OSError as error:
        raise DefinitionsError(file_error(error, str(place))) from None


def digest(texts: dict[Path, bytes]) -> str:
    """Return a hash of the contents of the files."""
    return hashlib.sha256(b"".join([hashlib.sha256(text).digest() for text in texts.values()])).hexdigest()


def load(node: Node, place: Path, skip_if_unchanged: bool = False) -> list[str] | None:
    """Import all files, and return a line for each definition that was left out.

    Returns None if the files are unchanged since the last import and are to be skipped then, unless an import of one of
    them was interrupted. Raises DefinitionsError; files before the bad one may have been imported by then, so the node
    has to stop.
    """
    texts = read(place)
    found = digest(texts)
    digests = {file: digest_of(text) for file, text in texts.items()}
    globals_ = node.parameters.globals()
    interrupted = any(was_interrupted(globals_.get(UNFINISHED_IMPORT), one) for one in digests.values())
    if skip_if_unchanged and not interrupted and globals_.get(IMPORTED_HASH) == found:
        return None
    lines: list[str] = []
    for file, data in texts.items():
        try:
            document = parse_json(data)
            check_depth(document)
            lines += import_definitions(node, document, digest=digests[file])
        except ValueError as error:
            raise DefinitionsError(f"{file}: failed to parse JSON: {error}") from None
        except OperatorError as error:
            raise DefinitionsError(f"{file}: {' '.join(error.text.split())}") from None
    if skip_if_unchanged:
        node.parameters.set_global(IMPORTED_HASH, found)
    return lines
