"""The table of routes: each has a guard and answers for existing objects, and the routes that tools use exist."""

from tests.acceptance.operator.management.catalogue import CATALOGUE, shape
from tests.support.http import Api, Response
from tests.support.prepared import ENDS_AT_ONCE, path_of, readable, right_status
from warren.broker.core.access.passwords import hash_password
from warren.plugins.http.auth import Guard
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.api import routes
from warren.plugins.management.framework.router import Route, Routes

ROUTES = {(route.method, shape(route.path)): route for route in routes().all}


def test_every_route_has_a_guard_and_a_summary() -> None:
    for route in ROUTES.values():
        assert isinstance(route.guard, Guard), route
        assert route.summary, f"{route}: the handler says nothing of itself"


def test_the_routes_that_tools_use_have_the_guards_of_rabbitmq() -> None:
    guards = {key: route.guard.name for key, route in ROUTES.items()}
    assert {key: guards.get(key) for key in CATALOGUE} == CATALOGUE


def test_every_route_that_reads_returns_its_object(prepared: Api) -> None:
    responses = {route: prepared.get(path_of(prepared, route)) for route in readable()}
    wrong = [f"{route}: {response}" for route, response in responses.items() if response.status != right_status(route)]
    assert not wrong, "\n".join(wrong)


def test_head_answers_as_get_without_the_body(prepared: Api) -> None:
    wrong = []
    for route in readable():
        path = path_of(prepared, route)
        get, head = prepared.get(path), prepared.request("HEAD", path.removesuffix(ENDS_AT_ONCE))
        if (head.status, headers_of(head)) != (get.status, headers_of(get)):
            wrong.append(f"{route}: {get.status} {get.headers}, {head.status} {head.headers}")
    assert not wrong, "\n".join(wrong)


def headers_of(response: Response) -> dict[str, object]:
    """Return the headers, without the number in the length, as figures change between two requests."""
    return response.headers | {"content-length": response.headers.get("content-length", "").isdecimal()}


# Users by their tags, with the guards that each passes; `own` lets monitoring users read.
PASSES = {
    "plain": ((), "none"),
    "manager": (("management",), "none any vh"),
    "maker": (("policymaker",), "none any vh pol"),
    "watcher": (("monitoring",), "none any vh mon own"),
    "chief": (("administrator",), "none any vh pol mon own adm"),
}
STRANGER = "stranger"  # a policymaker without permissions in the virtual host
REFUSED = 401, "not_authorised"


def passes(user: str, route: Route) -> bool:
    guard = route.guard.name
    if user == STRANGER:
        return passes("maker", route) and not (guard in ("vh", "pol") and "{vhost}" in route.path)
    if guard == "own" and user == "watcher" and route.method != "GET":
        return False
    return guard in PASSES[user][1].split()


def test_every_guard_passes_its_users_and_refuses_all_others(prepared: Api) -> None:
    """A user that passes is tried with GET only, because other methods change the objects."""
    for user, (tags, _) in PASSES.items():
        prepared.peer.add_user(user, tags)
    prepared.peer.node.users.add(STRANGER, hash_password(STRANGER, b"salt"), ("policymaker",))
    wrong = []
    for route in routes().all:
        path = path_of(prepared, route)
        if route.guard.name != "none" and prepared.request(route.method, path, user=None).status != 401:
            wrong.append(f"{route} without a password")
        for user in (*PASSES, STRANGER):
            if not passes(user, route):
                response = prepared.request(route.method, path, user=user)
                right = response.status == 401 and response.error[:2] == REFUSED
            elif route.method == "GET":
                response = prepared.get(path, user=user)
                right = response.status == right_status(route)
            else:
                continue
            if not right:
                wrong.append(f"{route} by {user}: {response}")
    assert not wrong, "\n".join(wrong)


def nothing(request: object) -> None: ...


def found(table: Routes, method: str, path: str) -> tuple[str, dict[str, str]] | None:
    try:
        route, segments = table.find(method, path)
    except HTTPError:
        return None
    return route.path, segments


def test_a_path_is_cut_before_it_is_decoded() -> None:
    guard = Guard("any", "")
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
