"""Users and their permissions over HTTP."""

import asyncio
from typing import Any

import pytest

from tests.support.hashing import FakeHashing
from tests.support.http import Api, asgi_scope
from warren.broker.core.access.passwords import SHA256

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def api(api: Api) -> Api:
    """The HTTP API of a broker that hashes passwords."""
    api.host.node.users.hashing, api.host.node.users.algorithm = FakeHashing(), SHA256
    return api


def test_a_user_is_made_shown_changed_and_deleted(api: Api) -> None:
    assert api.put("/users/u", {"tags": "monitoring, own", "password": "p"}).status == 201
    shown = api.get("/users/u").json
    assert (shown["name"], shown["tags"], shown["limits"]) == ("u", ["monitoring", "own"], {})
    assert api.get("/users", user="u", password="p").error[2] == "Not administrator user"
    assert api.put("/users/u", {"tags": ["administrator"], "password": "q"}).status == 204
    assert api.get("/users/", user="u", password="q").status == 200
    assert api.delete("/users/u").status == 204
    assert api.get("/users/u").error == (404, "Object Not Found", "Not Found")
    assert api.delete("/users/u").status == 404


def test_users_come_as_a_list_with_pages(api: Api) -> None:
    api.put("/users/u", {"tags": ""})
    assert [user["name"] for user in api.get("/users").json] == ["guest", "u"]
    page = api.get("/users?page=1&page_size=1&name=U").json
    assert page["filtered_count"] == 2 and page["items"][0]["name"] == "guest"


def test_a_hash_is_taken_as_it_is(api: Api) -> None:
    vector = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    body = {"tags": "administrator", "password_hash": vector}
    assert api.put("/users/u", body).status == 201
    shown = api.get("/users/u").json
    assert (shown["password_hash"], shown["hashing_algorithm"]) == (vector, "rabbit_password_hashing_sha256")
    assert api.get("/users", user="u", password="test12").status == 200


def test_a_hash_that_is_no_password_s_is_taken_and_named(api: Api) -> None:
    assert "warren-cannot-log-in" not in api.put("/users/u", {"tags": "", "password_hash": ""}).headers
    for _ in range(2):
        response = api.put("/users/u", {"tags": "", "password_hash": "5f4dcc3b5aa765d61d8327deb882cf99"})
        assert (response.status, response.headers["warren-cannot-log-in"]) == (204, "u")
    assert api.get("/users/u").json["password_hash"] == "5f4dcc3b5aa765d61d8327deb882cf99"
    assert [fields["user"] for event, _, fields in api.peer.log if event == "user_cannot_log_in"] == ["u", "u"]


def test_a_user_without_password_and_hash_cannot_log_in(api: Api) -> None:
    api.put("/users/u", {"tags": "administrator", "password": "p"})
    assert api.put("/users/u", {"tags": "administrator"}).status == 204
    assert api.get("/users/u").json["password_hash"] == ""
    assert api.get("/users", user="u", password="p").status == 401
    assert api.get("/users", user="u", password="").status == 401


@pytest.mark.parametrize(("body", "reason"), [
    ({}, "tags_not_present"),
    ({"tags": "", "password": "p", "password_hash": ""}, "both_password_and_password_hash_are_provided"),
    ({"tags": "", "password_hash": "y"}, "invalid password hash: not base64"),
    ({"tags": "", "password_hash": "é"}, "invalid password hash: not base64"),
    ({"tags": "", "permissions": {"nope": ALL}}, "vhost_or_user_not_found"),
    ({"tags": "", "permissions": {"/": {"configure": ""}}}, "[{key_missing,write}]"),
    ({"tags": [str(number) for number in range(33)]}, "a user has at most 32 tags"),
    ({"tags": "", "limits": {"max-nothing": 1}}, 'Unrecognised terms [{<<"max-nothing">>,1}] in user-limits'),
    ({"tags": "", "permissions": {"/": ALL | {"read": "("}}}, "regular expression '(' is invalid"),
])  # fmt: skip
def test_an_invalid_body_creates_no_user(api: Api, body: object, reason: str) -> None:
    assert api.put("/users/u", body).error == (400, "bad_request", reason)
    assert api.get("/users/u").status == 404


def test_a_user_may_be_made_with_limits_and_permissions_and_keeps_the_limits(api: Api) -> None:
    body = {"tags": "", "limits": {"max-channels": 5}, "permissions": {"/": ALL}}
    assert api.put("/users/u", body).status == 201
    assert api.get("/permissions/%2F/u").json == {"user": "u", "vhost": "/", **ALL}
    api.put("/users/u", {"tags": "own"})
    assert api.get("/users/u").json["limits"] == {"max-channels": 5}


def test_protected_users_stay_as_they_are(api: Api) -> None:
    api.put("/users/u", {"tags": "protected"})
    refused = (400, "bad_request", "Protected users cannot be modified via the HTTP API")
    assert api.put("/users/u", {"tags": ""}).error == refused
    assert api.delete("/users/u").error == refused
    api.put("/users/v", {"tags": ""})
    assert api.post("/users/bulk-delete", {"users": ["v", "u"]}).error == refused
    assert api.get("/users/v").status == 200
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.put("/permissions/%2F/u", everything).status == 201, "permissions are not protected"
    assert api.delete("/permissions/%2F/u").status == 204
    assert api.put("/topic-permissions/%2F/u", {"exchange": "amq.topic", "write": "", "read": ""}).status == 201
    assert api.post("/definitions", {"permissions": [{"user": "u", "vhost": "/", **everything}]}).status == 204


def test_several_users_are_deleted_at_once(api: Api) -> None:
    for name in ("u", "v"):
        api.put(f"/users/{name}", {"tags": ""})
    assert {user["name"] for user in api.get("/users/without-permissions").json} == {"u", "v"}
    assert api.post("/users/bulk-delete", {"users": ["u", "v", "v", "nobody"]}).status == 204
    assert [user["name"] for user in api.get("/users").json] == ["guest"]
    assert api.post("/users/bulk-delete", {}).error == (400, "bad_request", "[{key_missing,users}]")


def test_permissions_are_given_shown_and_taken(api: Api) -> None:
    api.put("/users/u", {"tags": ""})
    body = {"configure": "a", "write": "b", "read": "", "vhost": "ignored"}
    assert api.get("/permissions/%2F/u").status == 404
    assert api.put("/permissions/%2F/u", body).status == 201
    assert api.put("/permissions/%2F/u", body).status == 204
    row = {"user": "u", "vhost": "/", "configure": "a", "write": "b", "read": ""}
    assert api.get("/permissions/%2F/u").json == row
    assert api.get("/users/u/permissions").json == [row]
    assert row in api.get("/permissions").json and row in api.get("/vhosts/%2F/permissions").json
    assert api.delete("/permissions/%2F/u").status == 204
    assert api.delete("/permissions/%2F/u").status == 404
    assert api.get("/users/u/permissions").json == []


def test_topic_permissions_are_given_shown_and_taken(api: Api) -> None:
    row = {"user": "guest", "vhost": "/", "exchange": "amq.topic", "write": "a", "read": "b"}
    path = "/topic-permissions/%2F/guest"
    assert api.get(path).status == 404
    assert api.put(path, {"exchange": "amq.topic", "write": "a", "read": "b"}).status == 201
    assert api.put(path, {"exchange": "other", "write": "a", "read": "b"}).status == 201
    assert api.put(path, {"exchange": "other", "write": "a", "read": "b"}).status == 204
    assert api.delete(path + "/other").status == 204 and api.delete(path + "/other").status == 404
    for list_ in (path, "/topic-permissions", "/users/guest/topic-permissions", "/vhosts/%2F/topic-permissions"):
        assert api.get(list_).json == [row]
    assert api.delete(path).status == 204 and api.get(path).status == 404
    assert api.put("/topic-permissions/%2F/nobody", {"exchange": "", "write": "", "read": ""}).status == 400
    assert api.put(path, {"exchange": "x", "write": "(", "read": ""}).status == 400


async def test_a_user_is_deleted_to_the_end_though_the_client_leaves(api: Api) -> None:
    """A right must not remain without its restriction."""
    node = api.peer.node
    api.peer.add_user("u")
    for number in range(20_000):
        node.users.set_topic_permission("u", "/", f"x{number}", "", ".*")

    async def leave() -> Any:
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        raise AssertionError("nobody is there")

    scope, _ = asgi_scope("DELETE", "/users/u")
    await api.application(scope, leave, send)
    assert node.users.get("u") is not None, "it takes many turns"
    for _ in range(1_000):
        await asyncio.sleep(0)
        if node.users.get("u") is None:
            return
    assert node.users.get("u") is None
