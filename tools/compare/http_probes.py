"""The requests that are sent to both brokers, in this order.

First objects are made, by requests that are compared too; then each route that reads is requested by each user, with
each part of its path unknown in turn; then each route that changes something gets bad bodies and callers without
rights; at last everything is deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from warren.plugins.management.framework.router import Route

V, OTHER = "compare", "compare-other"
PASSWORD = "compare-password"
# user -> tags; all but the last two have permissions in V
USERS = {
    "compare-administrator": "administrator",
    "compare-monitor": "monitoring",
    "compare-policymaker": "policymaker",
    "compare-manager": "management",
    "compare-weak": "management",
    "compare-plain": "",
    "compare-stranger": "management",
    "compare-monitor-stranger": "monitoring",
}
STRANGERS = ("compare-stranger", "compare-monitor-stranger")
UNKNOWN = "compare-nosuch"
URI = "amqp://127.0.0.1:1"
HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"  # of test12, from RabbitMQ's documentation


@dataclass(frozen=True)
class Probe:
    """A request. `path` may contain `{node}` and other names that differ by broker. `user` is "" for guest.

    With `own`, lists are compared without objects of others. `route` is the route in Warren's table.
    """

    method: str
    path: str
    body: Any = None
    user: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    own: bool = True
    route: str = ""

    @property
    def title(self) -> str:
        parts = [self.method, self.route or self.path]
        if self.note:
            parts.append(f"[{self.note}]")
        return " ".join(parts)


def q(text: str) -> str:
    return quote(text, safe="")


def vhost_path(kind: str, *names: str) -> str:
    return "/".join((f"/{kind}", V, *map(q, names)))


# Setup.

UPSTREAM = {"value": {"uri": URI, "expires": 3600000}}
POLICY = {"pattern": "^compare", "definition": {"max-length": 1000}, "priority": 3, "apply-to": "queues"}
OPERATOR_POLICY = {"pattern": "^compare", "definition": {"message-ttl": 60000}, "priority": 1, "apply-to": "queues"}
PERMISSIONS = {"configure": ".*", "write": ".*", "read": ".*"}
NO_PERMISSIONS = {"configure": "", "write": "", "read": ""}


def setup() -> Iterator[Probe]:
    """Yield the requests that make objects; they are compared."""
    for name in (V, OTHER):
        yield Probe("PUT", f"/vhosts/{name}", {"description": "compared", "tags": "one,two"})
    yield Probe("PUT", f"/vhosts/{V}", {"description": "compared", "tags": "one,two"}, note="again")
    yield Probe("PUT", f"/vhosts/{OTHER}", note="again, without a body")
    for user, tags in USERS.items():
        yield Probe("PUT", f"/users/{user}", {"password": PASSWORD, "tags": tags})
        if user not in STRANGERS:
            given = NO_PERMISSIONS if user == "compare-weak" else PERMISSIONS
            yield Probe("PUT", f"/permissions/{V}/{user}", given)
    yield Probe("PUT", "/users/compare-hash", {"password_hash": HASH, "tags": ["management"]}, note="hash")
    yield Probe("PUT", "/users/compare-nobody", {"password_hash": "", "tags": ""}, note="no password")
    yield Probe("PUT", f"/topic-permissions/{V}/compare-manager", {"exchange": "compare.x", "write": "a", "read": "b"})
    yield Probe("PUT", vhost_path("parameters/federation-upstream", "compare-up"), UPSTREAM)
    yield Probe("PUT", "/global-parameters/compare-global", {"value": {"a": 1}})
    yield Probe("PUT", vhost_path("policies", "compare-policy"), POLICY)
    yield Probe("PUT", vhost_path("operator-policies", "compare-policy"), OPERATOR_POLICY)
    yield Probe("PUT", vhost_path("vhost-limits", "max-queues"), {"value": 500})
    yield Probe("PUT", "/user-limits/compare-manager/max-channels", {"value": 500})
    yield Probe("PUT", vhost_path("exchanges", "compare.x"), {"type": "topic", "durable": True, "arguments": {}})
    yield Probe("PUT", vhost_path("exchanges", "compare.x2"), {"type": "fanout", "durable": False, "internal": True})
    yield Probe(
        "PUT",
        vhost_path("exchanges", "compare.ae"),
        {"type": "headers", "auto_delete": True, "arguments": {"alternate-exchange": "compare.x"}},
    )
    yield Probe("PUT", vhost_path("queues", "compare.q"), {"durable": True, "arguments": {}})
    yield Probe("PUT", vhost_path("queues", "compare.q"), {"durable": True}, note="again")
    yield Probe("PUT", vhost_path("queues", "compare.q"), {"durable": False}, note="inequivalent")
    yield Probe("PUT", vhost_path("queues", "compare.qq"), {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    arguments = {"x-message-ttl": 1000, "x-max-priority": 5}
    yield Probe("PUT", vhost_path("queues", "compare.args"), {"durable": True, "arguments": arguments})
    yield Probe("PUT", vhost_path("queues", "compare.auto"), {"durable": False, "auto_delete": True})
    yield Probe("PUT", vhost_path("queues", "other"), {"durable": True}, note="no policy")
    bind = vhost_path("bindings") + "/e/compare.x/q/compare.q"
    yield Probe("POST", bind, {"routing_key": "key.#"})
    yield Probe("POST", bind, {"routing_key": "key", "arguments": {"x": 1}})
    yield Probe("POST", bind, {}, note="empty")
    yield Probe("POST", vhost_path("bindings") + "/e/compare.x/e/compare.x2", {"routing_key": "a b/c"})


# Values of path segments.

ROUTE_VALUES = {  # path of the route -> values, if they are not those below
    "/vhosts/{name}": {"name": V},
    "/definitions/{name}": {"name": V},
    "/definitions/{vhost}": {"vhost": V},
    "/global-parameters/{name}": {"name": "compare-global"},
    "/feature-flags/{name}/enable": {"name": "quorum_queue"},
    "/connections/{name}": {"name": "{connection}"},
    "/connections/{name}/channels": {"name": "{connection}"},
    "/policies/{vhost}/{name}": {"name": "compare-policy"},
    "/operator-policies/{vhost}/{name}": {"name": "compare-policy"},
    "/parameters/{component}/{vhost}/{name}": {"name": "compare-up"},
    "/user-limits/{user}/{limit}": {"limit": "max-channels"},
}
VALUES = {
    "vhost": V,
    "at": V,
    "queue": "compare.q",
    "exchange": "compare.x",
    "source": "compare.x",
    "destination": "compare.x2",
    "dtype": "q",
    "props": "key.%23",
    "user": "compare-manager",
    "username": "compare-manager",
    "component": "federation-upstream",
    "node": "{node}",
    "channel": "{channel}",
    "connection": "{connection}",
    "port": "{amqp_port}",
    "protocol": "amqp",
    "within": "1",
    "unit": "days",
    "limit": "max-queues",
    "pattern": "^compare",
    "id": UNKNOWN,
    "password": "secret",
    "filter": "rabbit",
}


def values_of(path: str, names: Sequence[str]) -> dict[str, str]:
    own = ROUTE_VALUES.get(path, {})
    return {name: own.get(name, VALUES.get(name, UNKNOWN)) for name in names}


def filled(path: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        path = path.replace("{" + name + "}", value if value.startswith("{") else q(value))
    return path


# Sweeps over the table of routes.

ALIKE = ("/openapi.json", "/")  # Warren's own documents


def reads(routes: Sequence[Route]) -> Iterator[Probe]:
    """Yield each route that reads: by each user, and with each part of its path unknown in turn."""
    for route in routes:
        if route.method != "GET" or route.path in ALIKE:
            continue
        values = values_of(route.path, route.names)
        path = filled(route.path, values)
        yield Probe("GET", path, route=route.path)
        for user in USERS:
            yield Probe("GET", path, user=user, note=f"as {user}", route=route.path)
        for name in route.names:
            unknown = filled(route.path, {**values, name: UNKNOWN})
            yield Probe("GET", unknown, note=f"unknown {name}", route=route.path)
            if name == "vhost":
                yield Probe("GET", unknown, user="compare-manager", note="unknown vhost, manager", route=route.path)


def methods(paths: Sequence[str], known: Mapping[str, Sequence[str]]) -> Iterator[Probe]:
    """Yield OPTIONS requests for each path in either broker's table."""
    for path in paths:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        yield Probe("OPTIONS", filled(path, values_of(path, names)), note="allow", route=path)
        if path not in known:
            yield Probe("GET", filled(path, values_of(path, names)), note="reference's path", route=path)


LISTS = ("/queues", "/exchanges", "/connections", "/channels", "/users", "/vhosts", f"/queues/{V}", f"/exchanges/{V}")


def lists() -> Iterator[Probe]:
    """Yield requests for lists with columns, sorting and pages."""
    for path in LISTS:
        route = path.replace(f"/{V}", "/{vhost}")
        for query in (
            *("page=1", "page=1&page_size=2", "page=0", "page=-1", "page=x", "page=1&page_size=501", "page=100"),
            *("page=1&page_size=0", "page=1&name=compare", "page=1&name=%5E%5B&use_regex=true", "columns=name"),
            *("columns=name,nosuch", "sort=name", "sort=name&sort_reverse=true", "sort=nosuch", "page=", "page_size=5"),
            *("disable_stats=true", "disable_stats=true&enable_queue_totals=true", "lengths_age=60", "lengths_incr=5"),
            "msg_rates_age=x&msg_rates_incr=5",
        ):
            if path in ("/queues", "/exchanges", "/users", "/vhosts") and query.startswith("page"):
                continue  # the counts of a page include the objects of others
            yield Probe("GET", f"{path}?{query}", note=query, route=route)


def checks() -> Iterator[Probe]:
    """Yield health checks with valid and invalid arguments."""
    base = "/health/checks"
    for port in ("{amqp_port}", "1", "x", "-1", "65536", "0"):
        yield Probe("GET", f"{base}/port-listener/{port}", note=port, route=f"{base}/port-listener/{{port}}")
    for protocol in (
        *("amqp", "amqp091", "amqp0-9-1", "amqp0.9.1", "amqp10", "amqp1.0", "amqps", "http", "https", "mqtt", "stomp"),
        *("nosuch", "AMQP", "amqp,http", "amqp,nosuch", "mqtt,stomp", "clustering"),
    ):
        path = f"{base}/protocol-listener/{q(protocol)}"
        yield Probe("GET", path, note=protocol, route=f"{base}/protocol-listener/{{protocol}}")
    for within, unit in (
        *(("1", "days"), ("1", "weeks"), ("1", "months"), ("1", "years"), ("1", "hours"), ("x", "days")),
        *(("-1", "days"), ("1", "DAYS"), ("x", "x"), ("1.5", "days")),
    ):
        path = f"{base}/certificate-expiration/{within}/{unit}"
        route = f"{base}/certificate-expiration/{{within}}/{{unit}}"
        yield Probe("GET", path, note=f"{within} {unit}", route=route)


def logins() -> Iterator[Probe]:
    """Yield requests with failing logins."""
    for path in ("/whoami", "/queues", "/nosuch", f"/queues/{V}/nosuch", "/nodes", "/definitions"):
        yield Probe("GET", path, user="nosuch:wrong", note="unknown user")
        yield Probe("GET", path, user="compare-manager:wrong", note="wrong password")
        yield Probe("GET", path, user="compare-nobody:", note="user without a password")
        yield Probe("GET", path, user=":", note="no credentials")
        yield Probe("GET", path, user=":", headers={"authorization": "Basic %%%"}, note="no base64")
        yield Probe("GET", path, user=":", headers={"authorization": "Basic Z3Vlc3Q="}, note="no colon")
        yield Probe("GET", path, user=":", headers={"authorization": "Bearer abc"}, note="bearer")
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body in (
        *(b"username=guest&password=guest", b"username=guest&password=wrong", b"username=guest", b"", b"x=1"),
        b"username=compare-plain&password=compare-password",
    ):
        yield Probe("POST", "/login", body, ":", form, note=body.decode() or "empty")


# Bodies of routes that change something.

BAD_BODIES: tuple[tuple[str, bytes], ...] = (
    ("no JSON", b"{"),
    ("empty", b""),
    ("a list", b"[]"),
    ("a number", b"1"),
    ("a text", b'"text"'),
    ("null", b"null"),
    ("doubly encoded", b'"{}"'),
    ("an object", b"{}"),
    ("no UTF-8", b'{"a":"\xff"}'),
)
PUBLISH = {"properties": {}, "routing_key": "compare.q", "payload": "text", "payload_encoding": "string"}
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
DECLARE_QUEUE, DECLARE_EXCHANGE = {"durable": True, "arguments": {}}, {"type": "direct", "durable": True}
GOOD_BODIES: dict[str, Any] = {
    "PUT /vhosts/{name}": {"description": "compared", "tags": "one,two"},
    "PUT /users/{user}": {"password": PASSWORD, "tags": "management"},
    "PUT /permissions/{at}/{user}": PERMISSIONS,
    "PUT /topic-permissions/{at}/{user}": {"exchange": "compare.x", "write": "a", "read": "b"},
    "PUT /parameters/{component}/{vhost}/{name}": UPSTREAM,
    "PUT /global-parameters/{name}": {"value": 1},
    "PUT /policies/{vhost}/{name}": POLICY,
    "PUT /operator-policies/{vhost}/{name}": OPERATOR_POLICY,
    "PUT /vhost-limits/{vhost}/{limit}": {"value": 500},
    "PUT /user-limits/{user}/{limit}": {"value": 500},
    "PUT /exchanges/{vhost}/{exchange}": {"type": "topic", "durable": True, "arguments": {}},
    "PUT /queues/{vhost}/{queue}": DECLARE_QUEUE,
    "POST /bindings/{vhost}/e/{exchange}/q/{queue}": {"routing_key": "key.#"},
    "POST /bindings/{vhost}/e/{source}/e/{destination}": {"routing_key": "a b/c"},
    "POST /exchanges/{vhost}/{exchange}/publish": PUBLISH,
    "POST /queues/{vhost}/{queue}/get": GET,
    "POST /queues/{vhost}/{queue}/actions": {"action": "sync"},
    "POST /users/bulk-delete": {"users": ["compare-nosuch"]},
    "POST /definitions": {"vhosts": []},
    "POST /definitions/{name}": {"queues": []},
    "POST /all-configuration": {"vhosts": []},
}
# Routes that change the whole node, requested only by callers without rights.
NOT_AS_GUEST = frozenset(
    (
        *("PUT /cluster-name", "DELETE /reset", "DELETE /reset/{node}", "POST /rebalance/queues"),
        *("DELETE /auth/attempts/{node}", "DELETE /auth/attempts/{node}/source"),
    )
)
LATE = ("/vhosts/{vhost}", "/users/{user}", "/users/bulk-delete")  # deleted last, as other probes need them
MAY_NOT = ("compare-stranger", "compare-monitor-stranger", "compare-plain", "compare-weak", "compare-monitor")
MAY = ("compare-policymaker", "compare-manager", "compare-administrator")


def changes(routes: Sequence[Route]) -> Iterator[Probe]:
    """Yield each route that makes something: bad bodies, unknown parts of the path, each user."""
    for route in routes:
        if route.method not in ("PUT", "POST"):
            continue
        title = f"{route.method} {route.path}"
        values = values_of(route.path, route.names)
        path, body = filled(route.path, values), GOOD_BODIES.get(title)
        for user in (*MAY_NOT, *MAY):
            if title in NOT_AS_GUEST and user == "compare-administrator" or title == "POST /users/bulk-delete":
                continue
            yield Probe(route.method, path, body, user, note=f"as {user}", route=route.path)
        if title in NOT_AS_GUEST:
            continue
        if route.body is not None:
            bad_path = filled(route.path, {**values, **new_name(route)})
            for note, bad in BAD_BODIES:
                yield Probe(route.method, bad_path, bad, note=note, route=route.path)
        for name in route.names:
            if name in ("name", "queue", "exchange", "user") and route.method == "PUT" and name == route.names[-1]:
                continue  # it would be created
            unknown = filled(route.path, {**values, name: UNKNOWN})
            yield Probe(route.method, unknown, body, note=f"unknown {name}", route=route.path)


def new_name(route: Route) -> dict[str, str]:
    """Return the last part of the path with an unused name."""
    last = route.names[-1] if route.names else ""
    if route.method == "PUT" and last in ("name", "queue", "exchange") and "feature" not in route.path:
        return {last: "compare-bad"}
    return {last: "compare-bad"} if route.path == "/users/{user}" else {}


def deletions(routes: Sequence[Route]) -> Iterator[Probe]:
    """Yield each route that deletes: unknown parts of the path, callers without rights, the deletion itself."""
    order = [route for route in routes if route.method == "DELETE" and route.path not in LATE]
    depth = ("props", "contents", "bindings", "restart", "/queues", "/exchanges")
    order.sort(key=lambda route: next((n for n, word in enumerate(depth) if word in route.path), len(depth)))
    late = [route for path in LATE for route in routes if route.method == "DELETE" and route.path == path]
    for route in (*order, *late):
        title = f"{route.method} {route.path}"
        values = values_of(route.path, route.names)
        path = filled(route.path, values)
        for user in MAY_NOT:
            yield Probe("DELETE", path, user=user, note=f"as {user}", route=route.path)
        for name in route.names:
            if name != "node" or title not in NOT_AS_GUEST:
                unknown = filled(route.path, {**values, name: UNKNOWN})
                yield Probe("DELETE", unknown, note=f"unknown {name}", route=route.path)
        if title not in NOT_AS_GUEST:
            yield Probe("DELETE", path, route=route.path)
            yield Probe("DELETE", path, note="again", route=route.path)


def cleanup() -> Iterator[Probe]:
    """Delete the objects of this run or an earlier one."""
    for name in (V, OTHER, "compare-bad", "compare-nosuch", "compare-imported"):
        yield Probe("DELETE", f"/vhosts/{name}/deletion/protection")
        yield Probe("DELETE", f"/vhosts/{name}")
    for user in (*USERS, "compare-hash", "compare-nobody", "compare-bad", "compare-nosuch", "compare-imported"):
        yield Probe("DELETE", f"/users/{user}")
    for name in ("compare-global", "compare-bad", "compare-nosuch"):
        yield Probe("DELETE", f"/global-parameters/{name}")
