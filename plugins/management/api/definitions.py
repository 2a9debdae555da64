"""Definitions out, to be taken to another broker, and in, all of them or none."""

from __future__ import annotations

import re
from email import policy
from email.parser import BytesParser
from typing import Any

import msgspec

from broker.plugin import Invalid, Node, exported, imported

from .. import bodies
from ..access import ADMIN
from ..answers import NO_VHOST, Answer, bad, done, not_found
from ..request import Request
from ..routes import Route
from .users import PROTECTED, PROTECTED_UNCHANGED, described

UNSAFE = re.compile(r"[^\w .()+-]", re.ASCII)  # in the name of a file that a browser is to write
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def get_definitions(request: Request) -> Answer:
    """All definitions, or what is in one virtual host."""
    name = request.path.get("name")
    if name is not None and name not in request.node.vhosts:
        raise bad(NO_VHOST)  # 400, where the import has 404: as RabbitMQ
    headers = {}
    if "download" in request.query:
        file = UNSAFE.sub("_", request.query["download"])
        headers["content-disposition"] = f"attachment; filename={file}"
    return Answer(200, exported(request.node, name), headers)


def post_definitions(request: Request) -> Answer:
    """Take over a document of definitions, all of it or nothing."""
    name = request.path.get("name")
    if name is not None and name not in request.node.vhosts:
        raise not_found(NO_VHOST)
    try:
        document = msgspec.json.decode(document_of(request).removeprefix(BYTE_ORDER_MARK))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise bad("failed_to_parse_json") from None
    if not isinstance(document, dict):
        raise bad("failed_to_parse_json")
    bodies.check_depth(document)
    check_protected(request.node, document)
    for line in imported(request.node, document, name):
        request.host.report("definitions", "warning", {"what": line})
    return done()


def check_protected(node: Node, document: dict[str, Any]) -> None:
    """Raises Refusal (400) where a protected user would be another than before: HTTP does not change those."""
    users = document.get("users")
    for given in users if isinstance(users, list) else ():
        user = node.users.get(given["name"]) if isinstance(given, dict) and isinstance(given.get("name"), str) else None
        if user is None or PROTECTED not in user.tags:
            continue
        now = described(user)
        tags = given.get("tags", [])
        same_tags = (tags.split(",") if isinstance(tags, str) else tags) == now.pop("tags")
        if "password" in given or not same_tags or any(given.get(key) != now[key] for key in ("name", "password_hash")):
            raise bad(PROTECTED_UNCHANGED)
        if given.get("limits", now["limits"]) != now["limits"]:
            raise bad(PROTECTED_UNCHANGED)


def document_of(request: Request) -> bytes:
    """The body, or the part `file` of a form. Raises Invalid."""
    body: bytes = request.body
    media_type = request.headers.get("content-type", "")
    if not media_type.lower().startswith("multipart/form-data"):
        return body.strip() or b"{}"
    head = b"Content-Type: " + media_type.encode("latin-1") + b"\r\n\r\n"
    form = BytesParser(policy=policy.HTTP).parsebytes(head + body)
    for part in form.iter_parts() if form.is_multipart() else ():
        if part.get_param("name", header="content-disposition") == "file":
            octets = part.get_payload(decode=True)
            return octets if isinstance(octets, bytes) else b""
    raise Invalid("the form has no part named file")


ROUTES = tuple(
    route
    for path in ("/definitions", "/definitions/{name}", "/all-configuration")
    for route in (
        Route("GET", path, ADMIN, get_definitions),
        Route("POST", path, ADMIN, post_definitions, bytes),
    )
)
