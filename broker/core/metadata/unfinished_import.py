"""The mark of imports that have not ended: a global parameter, whose value names each document that was being imported.

It is stored before a part of a document is, and cleared when an import of the same document has ended. What stays is
of imports that a crash has interrupted. The broker then has a part of their definitions, so it exports none.
"""

import hashlib
from collections.abc import Iterable, Set

from .records import StoredGlobalParameter

UNFINISHED_IMPORT = "internal_unfinished_import"
BLANKS = b" \t\r\n"  # clients and tools may change them
PIECE_BYTES = 1 << 20  # in which a thread holds the interpreter
INTERRUPTED = "an import of definitions was interrupted, and a part of them is here"
ADVICE = (
    "import the same document again, into the same virtual host if it was imported into one,"
    f" or clear the global parameter {UNFINISHED_IMPORT}"
)

Marks = list[dict[str, object]]


def digest_of(document: bytes) -> str:
    """Return a hash of the text of a document, without its blanks."""
    found = hashlib.sha256()
    for start in range(0, len(document), PIECE_BYTES):
        found.update(document[start : start + PIECE_BYTES].translate(None, BLANKS))
    return found.hexdigest()


def marks_of(value: object) -> Marks:
    """Return the marks in the value of the parameter, None if it is not set; an unknown value counts as one mark."""
    if value is None:
        return []
    return value if isinstance(value, list) and all(isinstance(mark, dict) for mark in value) else [{}]


def is_completed(mark: dict[str, object], digest: str, vhost: str | None, places: Set[object]) -> bool:
    """Return whether the marked import is completed by one of this document, into a virtual host or as a whole.

    As a whole it imports to `places`, the virtual hosts that its objects name. If they name a single one, that is what
    an import into this virtual host does.
    """
    if mark.get("sha256") != digest:
        return False
    return mark.get("vhost") == vhost or (vhost is None and places <= {mark.get("vhost")})


def was_interrupted(value: object, digest: str) -> bool:
    """Return whether the value of the parameter has a mark of this document, wherever it was imported into."""
    return any(mark.get("sha256") == digest for mark in marks_of(value))


def with_mark(value: object, digest: str, vhost: str | None, since_s: int) -> Marks:
    others = [mark for mark in marks_of(value) if (mark.get("sha256"), mark.get("vhost")) != (digest, vhost)]
    return [*others, {"sha256": digest, "vhost": vhost, "since": since_s}]


def unfinished_import(parameters: Iterable[StoredGlobalParameter]) -> str:
    """Return what is wrong with stored definitions, or an empty text."""
    if any(parameter.name == UNFINISHED_IMPORT for parameter in parameters):  # whatever its value
        return INTERRUPTED
    return ""
