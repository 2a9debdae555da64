"""Terraform's RabbitMQ provider: create, read, plan without a difference, change, delete, for each resource.

Each test sends PUT, then GET, and compares the fields, as `plan` does; an object deleted elsewhere is a 404.
"""

import uuid
from urllib.parse import quote

import pytest

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def user(api):
    name = f"terraform.{uuid.uuid4().hex[:8]}"
    api.put(f"/users/{name}", {"password": "foobar", "tags": "administrator,management"})
    yield name
    api.delete(f"/users/{name}")


def apply(api, path, body, **shown):
    """Create the object and read it back without a difference, in the types that were written."""
    api.put(path, body)
    found = api.get(path)
    for key, value in {**body, **shown}.items():
        assert found[key] == value and type(found[key]) is type(value), (key, found)
    return found


def assert_deleted(api, path):
    assert api.call("DELETE", path).status == 204
    assert api.call("GET", path).status == 404
    assert api.call("DELETE", path).status == 404


def test_permissions(api, path, user):
    rights = f"/permissions/{path}/{user}"
    apply(api, rights, ALL, user=user)
    apply(api, rights, ALL | {"read": "", "write": "^a"}, user=user)
    assert_deleted(api, rights)


def test_topic_permissions(api, path, user):
    rights = f"/topic-permissions/{path}/{user}"
    api.put(rights, {"exchange": "amq.topic", "write": ".*", "read": "^a"})
    (row,) = api.get(rights)
    assert (row["exchange"], row["write"], row["read"]) == ("amq.topic", ".*", "^a")
    assert api.call("DELETE", rights).status == 204
    assert api.call("GET", rights).status == 404


def test_exchanges(api, path):
    wanted = {"type": "fanout", "durable": False, "auto_delete": True, "arguments": {}}
    apply(api, f"/exchanges/{path}/x", wanted, name="x")
    assert_deleted(api, f"/exchanges/{path}/x")


def test_queues_keep_the_types_of_their_arguments(api, path):
    arguments = {"x-message-ttl": 5000, "x-dead-letter-exchange": "d", "x-single-active-consumer": True, "foo": 1.5}
    api.put(f"/queues/{path}/q", {"durable": True, "auto_delete": False, "arguments": arguments})
    found = api.get(f"/queues/{path}/q")
    shown = {key: value for key, value in found["arguments"].items() if key != "x-queue-type"}
    assert shown == arguments and {type(value) for value in shown.values()} == {int, str, bool, float}
    assert (found["durable"], found["auto_delete"]) == (True, False)
    assert_deleted(api, f"/queues/{path}/q")


@pytest.mark.parametrize("arguments", [{}, {"x-match": "all", "a~b": "c d", "n": 1}])
@pytest.mark.parametrize("key", ["", "a/b c#"])
@pytest.mark.parametrize(("kind", "destination"), [("q", "d/q"), ("e", "d/x")])
def test_bindings_are_found_by_their_location(api, path, kind, destination, key, arguments):
    api.put(f"/queues/{path}/d%2Fq", {"durable": True, "auto_delete": False, "arguments": {}})
    api.put(f"/exchanges/{path}/d%2Fx", {"type": "fanout", "durable": True})
    between = f"/bindings/{path}/e/amq.headers/{kind}/{quote(destination, '')}"
    reply = api.call("POST", between, {"routing_key": key, "arguments": arguments})
    assert reply.status == 201, reply
    name, _, properties = reply.headers["location"].rpartition("/")
    assert name.rpartition("/")[2] == quote(destination, "")
    listed = {binding["properties_key"]: binding for binding in api.get(between)}
    (binding,) = listed.values()
    assert (binding["routing_key"], binding["arguments"], binding["destination"]) == (key, arguments, destination)
    assert api.get(f"{between}/{properties}")["arguments"] == arguments
    assert api.call("DELETE", f"{between}/{properties}").status == 204
    assert api.get(between) == []


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies(api, path, kind):
    wanted = {"pattern": "^a", "priority": 3, "apply-to": "queues", "definition": {"max-length": 10, "expires": 60000}}
    apply(api, f"/{kind}/{path}/p", wanted, name="p")
    apply(api, f"/{kind}/{path}/p", wanted | {"priority": 0, "definition": {"max-length": 1}})
    assert_deleted(api, f"/{kind}/{path}/p")
