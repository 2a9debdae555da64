"""Routes that export and import definitions."""

import re
from collections.abc import Iterator
from dataclasses import astuple
from functools import partial

from warren.broker.core.definitions.entry import ENTRY_BYTES
from warren.broker.core.definitions.exporter import snapshot, text_pieces
from warren.broker.core.definitions.files import BeyondLimit, parse_json
from warren.broker.core.definitions.importer import Permits
from warren.broker.core.definitions.release import finish, release
from warren.broker.core.metadata.records import StoredUser
from warren.broker.core.metadata.unfinished_import import ADVICE, INTERRUPTED, UNFINISHED_IMPORT, digest_of
from warren.broker.core.policies.policies import OPERATOR_POLICY
from warren.broker.operator.definition_import import Decoded, Undecoded
from warren.broker.plugin import Invalid

from ...http.auth import ADMIN
from ...http.responses import NO_VHOST, HTTPError, Pieces, Response, bad, json_of, not_found, not_now, ok
from ...http.time_slices import done_in_slices, joined_in_slices
from ..framework import bodies
from ..framework.pagination import Item, columns_of, prune
from ..framework.request import Request
from ..framework.router import CONFIGURED, route
from .policies import check_operator_policies
from .users import check_protected, without_password

FREE_VALUES = 50_000  # commas and arrays in a part of definitions in which no object ends
ENTRY_VALUES = 100_000  # commas and arrays of one entry, and of all that is outside of entries
STRING_BYTES = 4 * ENTRY_BYTES  # of a string with its escapes: an exported character is up to three times as long
BLOCK_BYTES = 16 << 10  # of a text, in which ends of objects are looked for
ENTRY_DEPTH = 2  # of the entries of lists of the document
COMMA, ARRAY, OBJECT, OBJECT_END = b",[{}"
NO_MARKS = bytes(byte for byte in range(256) if byte not in b",[]{}")
NO_JSON = "failed_to_parse_json"
BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,1000}[{\[]")  # of JSON with values
BOUNDARY = re.compile(r';\s*boundary="?([^"\s;]{1,70})', re.IGNORECASE)  # of the parts of a form
FILE_HEAD = re.compile(rb'^content-disposition:[^\r\n]*[;\s]name="?file"?\s*(?:;|$)', re.IGNORECASE | re.MULTILINE)
ENCODED_HEAD = re.compile(rb"(?im)^content-transfer-encoding:[ \t]*(?:base64|quoted-printable)")
PARTS_LIMIT, HEAD_BYTES = 100, 4096  # of a form, and of the head of a part
PATHS = ("/definitions", "/definitions/{name}", "/all-configuration")
CHECKS = ("/warren/check-definitions", "/warren/check-definitions/{name}")
UNSAFE = re.compile(r"[^\w .()+-]", re.ASCII)  # in the file name that a browser saves


@route("GET", ADMIN, *PATHS)
async def get_definitions(request: Request) -> Response[Item]:
    """Return all definitions, or the definitions of one virtual host, as of one moment."""
    name = request.path.get("name")
    if name is not None and name not in request.node.vhosts:
        raise bad(NO_VHOST)  # 400, where the import has 404, as in RabbitMQ
    headers = {}
    if "download" in request.query:
        file = UNSAFE.sub("_", request.query["download"])
        headers["content-disposition"] = f"attachment; filename={file}"
    chosen = columns_of(request.query)
    if request.host.imports.under_way:
        raise not_now("an import of definitions is under way: a part of them is here")
    if request.node.parameters.has_global(UNFINISHED_IMPORT):
        raise not_now(f"{INTERRUPTED}: {ADVICE}")
    head, sections = snapshot(request.node, name)
    if chosen is not None:
        head = prune(head, chosen)
        sections = [section for section in sections if section.name in chosen]

    def encode(section: str, item: Item) -> bytes:
        return json_of(prune(item, chosen[section]) if chosen is not None and section else item)

    texts = joined_in_slices(text_pieces(head, sections, encode), request.unread.grow)
    return Response(200, Pieces(await request.wait(texts)), headers)


@route("POST", ADMIN, *PATHS, body_limit=CONFIGURED)
async def post_definitions(request: Request, body: bytes) -> Response[None]:
    """Import definitions, all of them or none; with `leave-out` entries that this broker cannot have are skipped."""
    vhost, leave_out = request.path.get("name"), request.flag("leave-out")
    document, digest = document_of_request(request, body)
    permits = CallerPermits(request)
    checks = request.authorize, permits
    importing = request.host.imports.run(document, vhost, request.user.name, leave_out, digest, *checks)
    imported = await request.complete(importing)

    def report(line: str) -> None:
        request.host.report("definitions", "warning", {"what": line})

    await request.complete(done_in_slices(imported.warnings, report))
    return Response(204, headers=without_password(imported.without_password))


@route("POST", ADMIN, *CHECKS, body_limit=CONFIGURED, durable=False)
async def check_definitions(request: Request, body: bytes) -> Response[dict[str, list[str]]]:
    """Check definitions as an import does, change nothing, and return the parts that an import would leave out."""
    permits, leave_out = CallerPermits(request), request.flag("leave-out")
    document, _ = document_of_request(request, body)
    vhost = request.path.get("name")
    checking = request.host.imports.check(document, vhost, leave_out, request.authorize, permits)
    checked = await request.wait(checking)
    return ok({"skipped": checked.warnings})


def document_of_request(request: Request, body: bytes) -> Decoded:
    """Return the definitions of a body, and the digest of their text unless Undecoded. Raises HTTPError (400, 404)."""
    name = request.path.get("name")
    if name is not None and name not in request.node.vhosts:
        raise not_found(NO_VHOST)
    media_type = request.incoming.headers.get("content-type", "")
    if len(body) > bodies.THREAD_FROM:
        return Undecoded(partial(decode_document, body, media_type), len(body)), ""
    return decode_document(body, media_type)


def decode_document(body: bytes, media_type: str) -> Decoded:
    """Return the definitions of a body, and the digest of their text, without using the state of the broker.

    It may run in a thread. Raises HTTPError (400), Invalid.
    """
    text = document_of(body, media_type)
    check_shape(text)
    try:
        document = parse_json(text)
    except BeyondLimit as error:
        raise bad(f"failed to parse JSON: {error}") from None
    except ValueError:
        raise bad(NO_JSON) from None
    if not isinstance(document, dict):
        finish(release(document))
        raise bad(NO_JSON)
    check_depth(document)
    return document, digest_of(text)


def check_depth(document: object) -> None:
    """Raises HTTPError (400) for a document that is nested too deep, which is freed."""
    try:
        bodies.check_depth(document)
    except HTTPError:
        finish(release(document))
        raise


def check_shape(text: bytes) -> None:
    """Raises HTTPError (400) for definitions beyond a limit of their shape, which may be no JSON at all."""
    problem = problem_of_shape(text)
    if problem:
        raise bad(problem if BEGINNING.match(text) else NO_JSON)


def problem_of_shape(text: bytes) -> str:
    """Return the limit that a text exceeds, or "": for values without an end of an object, an entry or a string.

    Decoding keeps the interpreter until the end of an object. The lists of an invalid text are freed in one step,
    except lists in objects. Entries are objects in lists of the document.
    """
    values = string_bytes = depth = count = outside = 0
    for part in without_strings(text):
        string_bytes = 0 if part else string_bytes + BLOCK_BYTES
        values = 0 if b"}" in part else values + part.count(b",") + part.count(b"[")
        for mark in part.translate(None, NO_MARKS):
            if mark == COMMA:
                count += 1
            elif mark == ARRAY:
                count += 1
                depth += 1
            elif mark == OBJECT:
                if depth == ENTRY_DEPTH:
                    outside, count = count, 0
                depth += 1
            else:
                depth -= 1
                if depth == ENTRY_DEPTH and mark == OBJECT_END:
                    count = outside - 1  # the comma before or after it
        if values > FREE_VALUES:
            return f"JSON may have {FREE_VALUES} commas and arrays without an end of an object"
        if count > ENTRY_VALUES:
            return f"an entry, and all that is outside of entries, may have {ENTRY_VALUES} commas and arrays"
        if string_bytes > STRING_BYTES:
            return f"a string may have {STRING_BYTES} bytes of JSON"
    return ""


def without_strings(text: bytes) -> Iterator[bytes]:
    """Yield the bytes outside of strings in each block of a JSON text."""
    in_string = escapes = False
    for start in range(0, len(text), BLOCK_BYTES):
        block = text[start + escapes : start + BLOCK_BYTES].replace(rb"\\", b"")
        escapes = block.endswith(b"\\")  # the first byte of the next block
        parts = block.replace(rb"\"", b"").split(b'"')
        yield b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0


class CallerPermits(Permits):
    """The rights of the caller of a request. The methods raise HTTPError (400, 401, 405)."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def check_user(self, old: StoredUser, new: StoredUser) -> None:
        if astuple(old) != astuple(new):  # whatever fields a user has
            check_protected(self._request, old)

    def check_parameter(self, fields: dict[str, object]) -> None:
        """Check whether a change of an operator policy is one that the caller may make."""
        if fields.get("component") == OPERATOR_POLICY:
            vhost = self._request.path.get("name") or fields.get("vhost")
            place = (str(vhost), OPERATOR_POLICY, str(fields.get("name")))
            if self._request.node.parameters.get(*place) != fields.get("value"):
                check_operator_policies(self._request)


def document_of(body: bytes, media_type: str) -> bytes:
    """Return the body, or the part `file` of a form. Raises Invalid."""
    if not media_type.lower().startswith("multipart/form-data"):
        return body.strip() or b"{}"
    boundary = BOUNDARY.search(media_type)
    if boundary is not None:
        for head, content in parts_of_form(body, boundary[1].encode("latin-1")):
            if FILE_HEAD.search(without_other_strings(head)):
                if ENCODED_HEAD.search(head):
                    raise Invalid("the part named file may not have a transfer encoding")
                return content
    raise Invalid("the form has no part named file")


def without_other_strings(head: bytes) -> bytes:
    """Return the head of a part with its lines unfolded, and each quoted string but `file` empty."""
    pieces = head.replace(b"\n ", b" ").replace(b"\n\t", b" ").split(b'"')
    pieces[1::2] = [piece if piece.lower() == b"file" else b"" for piece in pieces[1::2]]
    return b'"'.join(pieces)


def parts_of_form(body: bytes, boundary: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the head and the content of the first parts: `email` takes hours for some heads of 1 MB."""
    form, delimiter = b"\r\n" + body, b"\r\n--" + boundary
    end = form.find(delimiter)
    for _ in range(PARTS_LIMIT):
        start = end + len(delimiter)
        end = form.find(delimiter, start)
        if end < 0:
            return
        blank = form.find(b"\r\n\r\n", start, min(start + HEAD_BYTES, end))
        if blank >= 0:
            yield form[start:blank].replace(b"\r", b""), form[blank + 4 : end]
