"""The OpenAPI document agrees with the routes."""

import asyncio
import re
from typing import Any

import pytest

from tests.support.http import Api
from warren.plugins.http.responses import Response
from warren.plugins.management.api import routes
from warren.plugins.management.framework import openapi


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {value["$ref"]} if "$ref" in value else set().union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_document_has_every_route_and_no_other(api: Api) -> None:
    document = api.get("/openapi.json", user=None).json
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert documented == {(route.method, route.path) for route in routes().all}


def test_every_operation_has_its_guard_and_a_unique_name(api: Api) -> None:
    document = api.get("/openapi.json").json
    by_route = {(route.method, route.path): route for route in routes().all}
    names = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            route = by_route[method.upper(), path]
            names.append(operation["operationId"])
            assert (operation["security"] == []) == (route.guard.name == "none")
            assert operation["summary"] and route.guard.text in operation["description"]
            named = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
            assert named == re.findall(r"{(\w+)}", path)
            assert ("requestBody" in operation) == (route.body is not None)
    assert len(set(names)) == len(names)


def test_what_the_document_refers_to_is_in_it(api: Api) -> None:
    document = api.get("/openapi.json").json
    there = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= there


def test_people_are_shown_a_page(api: Api) -> None:
    for path in ("", "/"):
        answer = api.get(path, user=None)
        assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
        assert b"<td>/api/vhosts</td>" in answer.body


def test_the_document_and_the_page_are_made_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for name in ("document", "page"):
        make = getattr(openapi, name)
        monkeypatch.setattr(openapi, name, lambda *given, make=make: made.append(make) or make(*given))
    for path in ("/openapi.json", "/"):
        first = api.get(path, user=None)
        for _ in range(3):
            squeezed = api.get(path, user=None, headers={"Accept-Encoding": "gzip"})
            assert squeezed.headers["content-encoding"] == "gzip"
            assert first.body == squeezed.body == api.get(path, user=None).body
    assert len(made) == 2


def test_concurrent_callers_wait_for_one_document_and_a_disconnect_stops_nothing() -> None:
    made = []

    def make(request: object) -> bytes:
        made.append(request)
        return b"{}"

    async def ask() -> None:
        constant = openapi.Constant(make, "application/json")
        request: Any = object()
        tasks = [asyncio.create_task(constant.answer(request)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        _, second, third = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(second, Response) and second is third

    asyncio.run(ask())
    assert len(made) == 1
