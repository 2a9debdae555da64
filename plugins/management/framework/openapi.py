"""The description of the API, made from its routes: an OpenAPI document for programs and a page for people."""

import asyncio
import html
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import msgspec

from ...http.asgi import compress_now
from ...http.auth import NONE
from ...http.responses import Response, json_of
from .pagination import Envelope, Listing
from .request import Request
from .router import Route

VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
PAGED = ("page", "page_size", "name", "use_regex")
LISTED = ("columns", "sort", "sort_reverse")
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>HTTP API</title></head><body><h1>HTTP API</h1>
<p>For programs: <a href="openapi.json">openapi.json</a></p>
<table><tr><th>Method</th><th>Path</th><th>For</th><th>Does</th></tr>
{rows}
</table></body></html>
"""


class Refusal(msgspec.Struct):
    error: str
    reason: Any


class Constant:
    """A response that is the same for every caller: encoded and compressed once, in a thread, at the first request.

    Its route needs no password, so anybody may request it at any rate.
    """

    def __init__(self, make: Callable[[Request], bytes], media_type: str) -> None:
        self._make = make
        self._media_type = media_type
        self._made: asyncio.Task[Response[bytes]] | None = None

    async def answer(self, request: Request) -> Response[bytes]:
        """Return the response; the first call makes it, and the other calls wait for the first."""
        if self._made is None or self._made.cancelled() or (self._made.done() and self._made.exception() is not None):
            self._made = asyncio.create_task(asyncio.to_thread(self._encode, request))
        return await asyncio.shield(self._made)  # the caller may be cancelled while others wait

    def _encode(self, request: Request) -> Response[bytes]:
        body = self._make(request)
        return Response(200, body, media_type=self._media_type, gzip=compress_now([body]))


def with_documentation(routes: Sequence[Route]) -> list[Route]:
    """Return the routes, and the routes of the documentation."""
    all_routes = list(routes)
    for_programs = Constant(lambda request: json_of(document(all_routes, request.node.version)), "application/json")
    for_people = Constant(lambda request: page(all_routes).encode(), "text/html; charset=utf-8")

    async def get_document(request: Request) -> Response[bytes]:
        """Return this API as an OpenAPI document."""
        return await for_programs.answer(request)

    async def get_page(request: Request) -> Response[bytes]:
        """Return this API as a page."""
        return await for_people.answer(request)

    all_routes += [Route("GET", "/openapi.json", NONE, get_document), Route("GET", "/", NONE, get_page)]
    return all_routes


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    bodies = [route.body for route in routes if route.body is not None and issubclass(route.body, msgspec.Struct)]
    answers = [view for route in routes for _, view in (route.answer,) if is_described(view)]
    types = [Refusal, Envelope, *bodies, *answers]
    schemas, components = msgspec.json.schema_components(types, schema_hook=any_value, ref_template=REFERENCE)
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route, by_type)
    return {
        "openapi": VERSION,
        "info": {"title": "Warren's HTTP API, as RabbitMQ's", "version": version},
        "servers": [{"url": "/api"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def any_value(kind: object) -> dict[str, Any]:
    """Return the schema of `object`."""
    return {"description": "any value"}


def is_described(view: Any) -> bool:
    """True for the type of an answer in JSON that has a schema."""
    return view not in (None, NoneType, bytes, Any)


def operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    kind, view = route.answer
    done: dict[str, Any] = {"description": "done"}
    if is_described(view):
        schema = schemas[view]
        if kind is Listing:
            items = {"type": "array", "items": schema}
            page = {"allOf": [schemas[Envelope], {"type": "object", "properties": {"items": items}}]}
            schema = {"anyOf": [items, page]}
        done["content"] = {"application/json": {"schema": schema}}
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.names]
    description: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": f"For {route.guard.text}.",
        "tags": [route.segments[0] or "api"],
        "security": [] if route.guard is NONE else [{"basic": []}],
        "parameters": parameters,
        "responses": {
            "2XX": done,
            "4XX": {"description": "refused", "content": {"application/json": {"schema": schemas[Refusal]}}},
        },
    }
    if route.method == "GET" and is_described(view):
        names = (*LISTED, *PAGED) if kind is Listing else ("columns",)
        description["parameters"] += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    if route.body is not None:
        description["requestBody"] = {"content": {"application/json": {"schema": schemas.get(route.body, {})}}}
    return description


def operation_id(route: Route) -> str:
    """Return a name that is unique to the route."""
    words = [segment.strip("{}").replace("-", "_").replace(".", "_") for segment in route.segments]
    return "_".join([route.method.lower(), *(word for word in words if word)])


def page(routes: Sequence[Route]) -> str:
    rows = [
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in ((route.method, f"/api{route.path}", route.guard.text, route.summary) for route in routes)
    ]
    return PAGE.format(rows="\n".join(rows))
