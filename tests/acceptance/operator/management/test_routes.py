"""The table of routes: each has a guard, and those that tools use exist."""

import pytest

from tests.acceptance.operator.management.catalogue import CATALOGUE, shape
from tests.support.http import Api
from warren.plugins.http.auth import Guard
from warren.plugins.management.api import routes
from warren.plugins.management.framework.router import Route, Routes, values

ROUTES = {(route.method, shape(route.path)): route for route in routes().all}


def test_every_route_has_a_guard_and_a_summary() -> None:
    for route in ROUTES.values():
        assert isinstance(route.guard, Guard), route
        assert route.summary, f"{route}: the handler says nothing of itself"


@pytest.mark.parametrize(("method", "path"), CATALOGUE)
def test_the_route_is_there_and_guarded_as_in_rabbitmq(method: str, path: str) -> None:
    assert ROUTES[method, path].guard.name == CATALOGUE[method, path]


@pytest.mark.parametrize("key", ROUTES, ids=str)
def test_nobody_gets_past_a_guard_without_a_password_or_with_no_tag(api: Api, key: tuple[str, str]) -> None:
    route = ROUTES[key]
    path = "".join(f"/{'%2F' if part == '{vhost}' else part.strip('{}')}" for part in route.segments)
    api.peer.add_user("plain")
    if route.guard.name == "none":
        assert api.request(route.method, path, user=None).status in (200, 401, 503)
    else:
        assert api.request(route.method, path, user=None).status == 401
        assert api.request(route.method, path, user="plain").error[:2] == (401, "not_authorised")


def nothing(request: object) -> None: ...


def found(table: Routes, method: str, path: str) -> tuple[str, dict[str, str]] | None:
    at = table.find(path)
    if at is None or method not in at[0]:
        return None
    return at[0][method].path, values(at[0][method], at[1])


def test_a_path_is_cut_before_it_is_decoded() -> None:
    guard = Guard("any", "", lambda caller, vhost: None)
    paths = ("/queues", "/queues/detailed", "/queues/{vhost}", "/queues/{vhost}/{queue}", "/links/{vhost}/down")
    table = Routes(Route("GET", path, guard, nothing) for path in (*paths, "/links/state/down", "/links/{vhost}"))  # type: ignore[arg-type]
    assert found(table, "GET", "/queues/%2F/a%2Fb") == ("/queues/{vhost}/{queue}", {"vhost": "/", "queue": "a/b"})
    assert found(table, "GET", "/queues/%252F") == ("/queues/{vhost}", {"vhost": "%2F"})
    assert found(table, "GET", "/queues/x%20y+z") == ("/queues/{vhost}", {"vhost": "x y+z"})
    assert found(table, "GET", "/queues/%ff") == ("/queues/{vhost}", {"vhost": "\udcff"})
    assert found(table, "GET", "/queues//") == found(table, "GET", "/queues/") == ("/queues", {})
    assert found(table, "GET", "/queues/detailed/") == ("/queues/detailed", {})
    assert found(table, "GET", "/links/state/down") == ("/links/state/down", {})
    assert found(table, "GET", "/links/state") == ("/links/{vhost}", {"vhost": "state"})
    assert found(table, "GET", "/links/%2F/down") == ("/links/{vhost}/down", {"vhost": "/"})
    assert found(table, "PUT", "/queues") is None and found(table, "GET", "/") is None
