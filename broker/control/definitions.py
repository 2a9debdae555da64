"""Definitions, out and in. The file is the command line's to read and write."""

from __future__ import annotations

import asyncio
import hashlib

from ..amqp.errors import Invalid
from ..core.definitions.exporter import IMPORTED_HASH, snapshot, text_pieces
from ..core.definitions.files import parsed
from .answers import Text
from .call import ACTOR, Call, Handler


def export_definitions(call: Call) -> Text:
    """The document, as it is now; its text is made in slices."""
    return Text(text_pieces(*snapshot(call.node)))


async def import_definitions(call: Call) -> str | None:
    """All of it or nothing; what was left out, a line each. The one argument is the text."""
    (text,) = call.arguments
    found = await asyncio.to_thread(digest, text)
    skip = call.flag("skip-if-unchanged")
    if skip and call.node.parameters.globals().get(IMPORTED_HASH) == found:
        return None
    try:
        document = await asyncio.to_thread(parsed, text.encode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise Invalid(f"failed to parse JSON: {error}") from None
    lines = await call.host.imports.run(document, None, ACTOR)
    if skip:
        with call.daemon.acting():
            call.node.parameters.set_global(IMPORTED_HASH, found)
    return "\n".join(lines) or None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


COMMANDS: dict[str, Handler] = {
    "export_definitions": export_definitions,
    "import_definitions": import_definitions,
}
