"""Previews over HTTP: the matches of a policy, and the rights of a user."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.http import Api


def preview(api: Api, **query: str) -> Any:
    return api.get(f"/warren/policy-preview/%2F?{urlencode(query)}")


def access(api: Api, user: str, **query: str) -> Any:
    return api.get(f"/warren/access/%2F/{user}?{urlencode(query)}")


def test_a_policy_preview_names_the_objects_that_the_policy_matches(api: Api) -> None:
    for name in ("orders.eu", "orders.us", "other"):
        api.put(f"/queues/%2F/{name}")
    api.put("/exchanges/%2F/orders", {"type": "topic"})
    found = preview(api, **{"pattern": "^orders", "apply-to": "all"}).json
    assert (found["queues"], found["exchanges"]) == (2, 1)
    assert {one["name"] for one in found["items"]} == {"orders", "orders.eu", "orders.us"}
    assert preview(api, **{"pattern": "^orders", "apply-to": "exchanges"}).json["queues"] == 0
    assert preview(api, pattern="^nothing").json == {"queues": 0, "exchanges": 0, "items": []}
    definition = {"pattern": "^orders", "definition": {"max-length": 5}, "apply-to": "queues"}
    api.put("/policies/%2F/short", definition)
    under_it = {one["name"] for one in api.get("/queues").json if one.get("policy") == "short"}
    assert under_it == {"orders.eu", "orders.us"}


def test_a_policy_preview_is_bounded_and_refuses_invalid_policies(api: Api) -> None:
    for number in range(150):
        api.put(f"/queues/%2F/q{number}")
    found = preview(api, **{"pattern": "^q", "apply-to": "queues"}).json
    assert found["queues"] == 150 and len(found["items"]) == 100
    assert preview(api, pattern="(").status == 400
    assert preview(api, **{"pattern": "a", "apply-to": "users"}).status == 400
    api.put("/queues/%2F/" + "a" * 60 + "b")
    assert preview(api, pattern="^(a|aa)+$").status == 400


def test_a_policy_preview_ends_when_its_searches_take_long_together(api: Api) -> None:
    for number in range(150):
        api.put(f"/queues/%2F/{'a' * 20}b{number}")  # in each of which the search takes milliseconds
    answer = preview(api, pattern="^(a|aa)+$")
    assert answer.status == 400 and "takes too long" in answer.json["reason"]


@pytest.mark.parametrize(("operation", "name", "key", "allowed", "reason"), [
    ("write", "mine.x", "", True, "'^mine' is found in 'mine.x'"),
    ("write", "yours", "", False, "'^mine' is not found in 'yours'"),
    ("configure", "mine.x", "", False, "'^$' is not found"),
    ("write", "", "", False, "in 'amq.default'"),
    ("write", "mine.topic", "eu.1", True, "the topic permission's write pattern '^eu' is found"),
    ("write", "mine.topic", "us.1", False, "the topic permission's write pattern '^eu' is not found"),
    ("read", "anything", "", True, "'.*' is found"),
])  # fmt: skip
def test_access_is_explained(api: Api, operation: str, name: str, key: str, allowed: bool, reason: str) -> None:
    api.put("/users/u", {"password_hash": "", "tags": ""})
    api.put("/permissions/%2F/u", {"configure": "^$", "write": "^mine", "read": ".*"})
    api.put("/exchanges/%2F/mine.topic", {"type": "topic"})
    api.put("/topic-permissions/%2F/u", {"exchange": "mine.topic", "write": "^eu", "read": ".*"})
    answer = access(api, "u", operation=operation, name=name, routing_key=key).json
    assert answer["allowed"] is allowed
    assert reason in answer["reasons"][-1]


def test_access_is_explained_for_known_users_and_operations_only(api: Api) -> None:
    assert access(api, "nobody", operation="read", name="q").status == 404
    assert access(api, "guest", operation="drink", name="q").status == 400
    api.put("/users/outside", {"password_hash": "", "tags": ""})
    answer = access(api, "outside", operation="read", name="q").json
    assert answer["allowed"] is False and "no permissions in virtual host" in answer["reasons"][0]
    api.put("/exchanges/%2F/inner", {"type": "fanout", "internal": True})
    answer = access(api, "guest", operation="write", name="inner").json
    assert answer["allowed"] is False and "internal" in answer["reasons"][-1]


def test_a_user_asks_for_own_rights(api: Api) -> None:
    api.peer.add_user("u", ("management",))
    api.put("/permissions/%2F/u", {"configure": "", "write": "^amq.default$", "read": "^orders"})
    for name, rights in (
        ("orders", {"configure": False, "write": False, "read": True}),
        ("", {"configure": False, "write": True, "read": False}),
    ):
        assert api.get(f"/warren/rights/%2F?{urlencode({'name': name})}", user="u").json == rights
    api.put("/vhosts/other", {})
    assert api.get("/warren/rights/other", user="u").status == 401
    assert api.get("/warren/rights", user="u").json == ["/"]
