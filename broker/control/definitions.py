"""Definitions, out and in. The file is the command line's to read and write."""

from __future__ import annotations

import hashlib

from ..core.document import IMPORTED_HASH, Document, exported
from ..core.plan import imported
from ..definition_files import parsed
from ..errors import Invalid
from .call import Call, Handler


def export_definitions(call: Call) -> Document:
    return exported(call.node)


def import_definitions(call: Call) -> str | None:
    """All of it or nothing; what was left out, a line each. The one argument is the text."""
    (text,) = call.arguments
    found = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    skip = call.flag("skip-if-unchanged")
    if skip and call.node.parameters.globals().get(IMPORTED_HASH) == found:
        return None
    try:
        document = parsed(text.encode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise Invalid(f"failed to parse JSON: {error}") from None
    lines = imported(call.node, document)
    if skip:
        call.node.parameters.set_global(IMPORTED_HASH, found)
    return "\n".join(lines) or None


COMMANDS: dict[str, Handler] = {
    "export_definitions": export_definitions,
    "import_definitions": import_definitions,
}
