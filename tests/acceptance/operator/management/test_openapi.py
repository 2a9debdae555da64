"""The OpenAPI document agrees with the routes."""

import asyncio
import re
from typing import Any

import pytest

from tests.support.http import Api
from tests.support.prepared import path_of, readable
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


def test_the_document_contains_its_references(api: Api) -> None:
    document = api.get("/openapi.json").json
    there = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= there


# Routes that read whose answer is no JSON, or has no schema of its own.
OTHER_ANSWERS = {
    *("/config/effective", "/warren/reports/{report}/page", "/openapi.json", "/"),
    *("/warren/trace/{vhost}", "/warren/log/stream", "/warren/events", "/federation-links/{vhost}/{list}"),
}
RANGES = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5&node_stats_age=60&node_stats_incr=5"


class Schemas:
    """The schemas of a document."""

    def __init__(self, document: Any) -> None:
        self._components = document["components"]["schemas"]
        self.answers: dict[str, Any] = {}  # of routes that read, by path
        for path, methods in document["paths"].items():
            content = methods.get("get", {"responses": {"2XX": {}}})["responses"]["2XX"].get("content")
            if content is not None:
                self.answers[path] = content["application/json"]["schema"]

    def resolved(self, schema: Any) -> Any:
        return self._components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def faults(self, value: Any, schema: Any, at: str = "") -> list[str]:
        """Return the parts of a value that do not match the schema."""
        schema = self.resolved(schema)
        if "anyOf" in schema:
            return min((self.faults(value, one, at) for one in schema["anyOf"]), key=len)
        if "allOf" in schema:
            parts = [self.resolved(one) for one in schema["allOf"]]
            names = {name: inner for part in parts for name, inner in part["properties"].items()}
            schema = {"type": "object", "properties": names, "required": []}
        types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
        kind = schema.get("type")
        if kind == "array":
            rows = value if isinstance(value, list) else [f"no array: {value}"]
            return [fault for one in rows for fault in self.faults(one, schema.get("items", {}), at + "[]")]
        if kind != "object":
            right = kind is None or isinstance(value, types[kind]) and isinstance(value, bool) == (kind == "boolean")
            return [] if right else [f"{at} is {value!r} and no {kind}"]
        if not isinstance(value, dict):
            return [f"{at} is {value!r} and no object"]
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        found = [f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, inner in value.items():
            if name in known or isinstance(others, dict):
                found += self.faults(inner, known.get(name, others), f"{at}.{name}")
            elif known:
                found.append(f"{at}.{name} is not described")
        return found

    def fields(self, path: str) -> set[str]:
        """Return the fields of the objects of a list."""
        return set(self.resolved(self.answers[path]["anyOf"][0]["items"])["properties"])


def test_every_response_matches_its_schema(prepared: Api) -> None:
    schemas = Schemas(prepared.get("/openapi.json").json)
    prepared.peer.set_policy("of the queue", "^it$", {"max-length": 10})
    with prepared.host.acting("guest"):
        prepared.put("/queues/%2F/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    described = [route for route in readable() if route.path not in OTHER_ANSWERS]
    wrong = [f"{route} has no schema" for route in described if route.path not in schemas.answers]
    for route in described:
        path, schema = path_of(prepared, route), schemas.answers[route.path]
        for query in ("", RANGES, "disable_stats=true", "page=1&page_size=1", "memory=true"):
            answer = prepared.get(f"{path}{'&' if '?' in path else '?'}{query}")
            if answer.status == 200:
                wrong += [f"{path}?{query}: {fault}" for fault in schemas.faults(answer.json, schema)]
    assert not wrong, "\n".join(wrong)


def test_lists_are_cut_to_and_sorted_by_each_field_that_they_have(prepared: Api) -> None:
    schemas = Schemas(prepared.get("/openapi.json").json)
    for path in ("/queues", "/exchanges", "/bindings", "/connections", "/channels", "/consumers", "/vhosts", "/users",
                 "/permissions", "/policies", "/federation-links", "/nodes", "/parameters"):  # fmt: skip
        whole = prepared.get(path).json
        assert whole and {name for row in whole for name in row} <= schemas.fields(path), path
        for name in sorted(schemas.fields(path)):
            rows = prepared.get(f"{path}?columns={name},no-such-field&sort={name}").json
            assert sorted(map(list, rows)) == sorted([name] if name in row else [] for row in whole), name


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


async def test_concurrent_callers_wait_for_one_document_and_a_disconnect_stops_nothing() -> None:
    made = []

    def make(request: object) -> bytes:
        made.append(request)
        return b"{}"

    constant = openapi.Constant(make, "application/json")
    request: Any = object()
    tasks = [asyncio.create_task(constant.answer(request)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    _, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(second, Response) and second is third
    assert len(made) == 1
