"""Scenarios 1 to 8: what upstreams, sets of them and policies may say, and the answer where they say anything else.

No link is needed for any of it, and no socket.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http import Api, Response

VALIDATION = "Validation failed\n\n"


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


def put(api: Api, value: object, name: str = "u", vhost: str = "%2f", **more: Any) -> Response:
    return api.put(f"/parameters/federation-upstream/{vhost}/{name}", {"value": value}, **more)


def put_set(api: Api, value: object, name: str = "s") -> Response:
    return api.put(f"/parameters/federation-upstream-set/%2f/{name}", {"value": value})


def refused(response: Response) -> str:
    """Return the reason why a parameter was refused."""
    status, error, reason = response.error
    assert (status, error) == (400, "bad_request")
    assert isinstance(reason, str) and reason.startswith(VALIDATION), reason
    return reason.removeprefix(VALIDATION).rstrip("\n")


def stored(api: Api, component: str = "federation-upstream") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = api.get(f"/parameters/{component}").json
    return listed


def test_an_upstream_is_created_shown_and_replaced(api: Api) -> None:
    assert put(api, {"uri": "amqp://h"}).status == 201
    expected = {"vhost": "/", "component": "federation-upstream", "name": "u", "value": {"uri": "amqp://h"}}
    assert api.get("/parameters/federation-upstream/%2f/u").json == expected
    assert put(api, {"uri": "amqp://other"}).status == 204
    assert stored(api) == [{**expected, "value": {"uri": "amqp://other"}}]
    assert api.delete("/parameters/federation-upstream/%2f/u").status == 204
    assert api.delete("/parameters/federation-upstream/%2f/u").status == 404


def test_a_name_may_hold_any_character(api: Api) -> None:
    assert put(api, {"uri": "amqp://h"}, name="%C3%BC%20%2F%25").status == 201
    assert [one["name"] for one in stored(api)] == ["ü /%"]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({}, 'Key "uri" not found in u'),
        ({"exchange": "x"}, 'Key "uri" not found in u'),
        ({"uri": 5}, "uri should be list, actually was 5"),
        ({"uri": ["amqp://h", 5]}, "uri should be list, actually was 5"),
        ({"uri": ["amqp://h", "http://h", "ftp://h"]}, '"http://h" not a valid URI: {unexpected_uri_scheme'),
        ({"uri": "http://h"}, '"http://h" not a valid URI: {unexpected_uri_scheme'),
        ({"uri": "amqp://h:99999"}, '"amqp://h:99999" not a valid URI: port_out_of_range'),
        ({"uri": "amqp://:5672"}, '"amqp://:5672" not a valid URI: port_requires_host'),
        ({"uri": "amqp://h/a/b"}, '"amqp://h/a/b" not a valid URI: invalid_vhost'),
        ({"uri": "amqp://h?heartbeat=x"}, '"amqp://h" not a valid URI: {not_an_integer,heartbeat}'),
        ({"uri": "amqp://h?auth_mechanism=magic"}, '"amqp://h" not a valid URI: unknown_mechanism'),
        ({"uri": "amqp://h?port=1"}, '"amqp://h" not a valid URI: {parameter_unconfigurable_in_query,port}'),
        ({"uri": "amqp://u:%zz@h"}, '"amqp://h" not a valid URI: invalid_escape'),
    ],
)
def test_an_upstream_without_a_uri_that_leads_somewhere_is_refused(
    api: Api, value: dict[str, object], line: str
) -> None:
    assert refused(put(api, value)).startswith(line)
    assert stored(api) == []


def test_a_refused_value_leaves_the_old_one(api: Api) -> None:
    put(api, {"uri": "amqp://h"})
    refused(put(api, {"uri": "http://h"}))
    assert [one["value"] for one in stored(api)] == [{"uri": "amqp://h"}]


def test_a_body_without_a_value_is_refused(api: Api) -> None:
    assert api.put("/parameters/federation-upstream/%2f/u", {}).status == 400
    assert api.put("/parameters/federation-upstream/nowhere/u", {"value": {"uri": "amqp://h"}}).status == 404


def test_what_is_wrong_with_a_uri_is_told_without_its_secrets(api: Api) -> None:
    for uri in ("http://me:secret@h", "amqp://me:secret@h?heartbeat=secret", "amqp://me:se/secret@h:x"):
        assert "secret" not in refused(put(api, {"uri": uri}))


@pytest.mark.parametrize("key", ["ha-policy", "foo", "upstream"])
def test_an_unknown_key_is_refused(api: Api, key: str) -> None:
    reason = refused(put(api, {"uri": "amqp://h", key: "all"}))
    assert reason.startswith("Unrecognised terms [") and f'"{key}"' in reason and reason.endswith(" in u")
    assert stored(api) == []


LEGAL: dict[str, list[object]] = {
    "uri": [[], "amqp://a b", "amqp://h", ["amqp://h", "amqps://i"]],
    "exchange": ["x"],
    "queue": ["q"],
    "consumer-tag": ["tag"],
    "prefetch-count": [0, 1000, 65535, 5.0],
    "reconnect-delay": [-1, 0, 1, 0.5],
    "max-hops": [-1, 1.5, 0, 1, 2, 5.0],
    "expires": [0, -1, 1, 3_600_000],
    "message-ttl": [-1, 0, 60_000],
    "trust-user-id": [True, False],
    "ack-mode": ["on-confirm", "on-publish", "no-ack"],
    "queue-type": ["classic", "quorum"],
    "bind-nowait": [True, False],
    "resource-cleanup-mode": ["default", "never"],
    "channel-use-mode": ["multiple", "single"],
}
ILLEGAL: dict[str, list[object]] = {
    "exchange": [5, None],
    "queue": [5],
    "consumer-tag": [["t"]],
    "prefetch-count": ["many", True],
    "reconnect-delay": ["soon"],
    "max-hops": ["far", True],
    "expires": ["never"],
    "message-ttl": ["never"],
    "trust-user-id": ["yes", 1],
    "ack-mode": ["on-monday", 5],
    "queue-type": ["stream", 5],
    "bind-nowait": ["yes"],
    "resource-cleanup-mode": ["always"],
    "channel-use-mode": ["many"],
}


@pytest.mark.parametrize("key", LEGAL)
def test_all_legal_values_of_a_key_are_taken(api: Api, key: str) -> None:
    assert put(api, {"uri": "amqp://h"}).status == 201
    for value in LEGAL[key]:
        assert put(api, {"uri": "amqp://h", key: value}).status == 204, value
    (shown,) = stored(api)
    assert shown["value"][key] == LEGAL[key][-1]


@pytest.mark.parametrize("key", ILLEGAL)
def test_a_value_of_a_wrong_type_or_range_is_refused_by_the_key_s_name(api: Api, key: str) -> None:
    for value in ILLEGAL[key]:
        assert refused(put(api, {"uri": "amqp://h", key: value})).startswith(f"{key} should be "), value
    assert stored(api) == []


def test_all_that_is_wrong_is_told_at_once(api: Api) -> None:
    reason = refused(put(api, {"max-hops": "far", "foo": 1, "ack-mode": "never"}))
    for part in ('Key "uri" not found', "max-hops should be", "ack-mode should be", "Unrecognised terms"):
        assert part in reason


@pytest.fixture
def policymaker(api: Api) -> str:
    """Add a user who may use the virtual hosts `/` and `open`, but not `closed`."""
    for vhost in ("open", "closed"):
        api.peer.add_vhost(vhost)
    api.peer.add_user("maker", ("policymaker",))
    api.peer.node.users.set_permission("maker", "open", ".*", ".*", ".*")
    return "maker"


def test_a_direct_uri_leads_where_its_author_may_go(api: Api, policymaker: str) -> None:
    assert put(api, {"uri": "amqp:///open"}, user=policymaker).status == 201
    for value in ("amqp://", ["amqp:///open", "amqp:///%2f"], ["amqp:///open", "amqp://h/closed"]):
        assert put(api, {"uri": value}, user=policymaker).status == 204, value


@pytest.mark.parametrize("vhost", ["closed", "nowhere"])
def test_a_direct_uri_leads_nowhere_else(api: Api, policymaker: str, vhost: str) -> None:
    for value in (f"amqp:///{vhost}", [f"amqp:///{vhost}"], ["amqp:///open", f"amqp:///{vhost}"],
                  ["amqp://h", f"amqp:///{vhost}"]):  # fmt: skip
        reason = refused(put(api, {"uri": value}, user=policymaker))
        assert f'user "maker" may not connect to vhost "{vhost}"' in reason, value
    assert stored(api) == []


def test_a_network_uri_is_not_looked_at_that_way(api: Api, policymaker: str) -> None:
    assert put(api, {"uri": "amqp://h/closed"}, user=policymaker).status == 201


def test_where_no_user_sets_it_every_direct_uri_goes(api: Api) -> None:
    api.peer.node.parameters.set("/", "federation-upstream", "u", {"uri": "amqp:///nowhere"})
    assert [one["value"]["uri"] for one in stored(api)] == ["amqp:///nowhere"]


def test_a_set_is_a_list_of_upstreams_each_once_or_more(api: Api) -> None:
    elements = [{"upstream": "a"}, {"upstream": "b", "exchange": "x"}, {"upstream": "b", "exchange": "y"}]
    assert put_set(api, elements).status == 201
    assert stored(api, "federation-upstream-set")[0]["value"] == elements


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ([{"exchange": "x"}], 'Key "upstream" not found in s'),
        ([{"upstream": "a"}, {}], 'Key "upstream" not found in s'),
        ([{"upstream": "a", "uri": "amqp://h"}], "Unrecognised terms ["),
        ([{"upstream": "a", "max-hops": "far"}], "max-hops should be "),
        ({"upstream": "a"}, "s should be list, actually was "),
        ("a", "s should be list, actually was "),
        (5, "s should be list, actually was "),
    ],
)
def test_what_is_no_set_is_refused(api: Api, value: object, line: str) -> None:
    assert refused(put_set(api, value)).startswith(line)
    assert stored(api, "federation-upstream-set") == []


def test_definitions_with_a_set_are_imported_and_exported_the_same(api: Api) -> None:
    upstreams = [{"upstream": "a", "exchange": "x", "max-hops": 2}, {"upstream": "a"}]
    password = "amqp://u:p%40ss@h"  # it stays as it is: what is exported is to be imported again
    parameters = [
        {"vhost": "/", "component": "federation-upstream", "name": "a", "value": {"uri": password}},
        {"vhost": "/", "component": "federation-upstream-set", "name": "s", "value": upstreams},
    ]
    assert api.post("/definitions", {"parameters": parameters}).status == 204
    exported = api.get("/definitions").json
    assert sorted(exported["parameters"], key=lambda one: str(one["name"])) == parameters
    other = Api()
    try:
        assert other.post("/definitions", exported).status == 204
        assert other.get("/definitions").json["parameters"] == exported["parameters"]
    finally:
        other.close()


def put_policy(api: Api, definition: dict[str, object], kind: str = "policies") -> Response:
    return api.put(f"/{kind}/%2f/p", {"pattern": "^fed", "definition": definition, "apply-to": "all"})


@pytest.mark.parametrize(
    "definition",
    [
        {"federation-upstream": "a", "federation-upstream-set": "all"},
        {"federation-upstream": "a", "federation-upstream-pattern": "a"},
        {"federation-upstream-set": "all", "federation-upstream-pattern": "a"},
        {"federation-upstream": "a", "federation-upstream-set": "all", "federation-upstream-pattern": "a"},
        {"federation-upstream-pattern": "("},
        {"federation-upstream-pattern": "a" * 1025},
        {"federation-upstream": 5},
        {"federation-upstream-set": ["all"]},
        {"federation-upstream-pattern": None},
    ],
)
def test_a_policy_with_what_no_policy_may_say_is_refused(api: Api, definition: dict[str, object]) -> None:
    refused(put_policy(api, definition))
    assert api.get("/policies").json == []


@pytest.mark.parametrize("key", ["federation-upstream", "federation-upstream-set", "federation-upstream-pattern"])
def test_an_operator_policy_federates_nothing(api: Api, key: str) -> None:
    refused(put_policy(api, {key: "a"}, "operator-policies"))
    assert put_policy(api, {key: "a", "max-length": 5}).status == 201
