"""Virtual hosts and limits over HTTP."""

import pytest
from pamqp.commands import Connection

from tests.support.http import Api


def test_a_virtual_host_is_made_shown_changed_and_deleted(api: Api) -> None:
    body = {"description": "d", "tags": "x, y", "tracing": "true", "default_queue_type": "classic", "name": "ignored"}
    assert api.put("/vhosts/v", body).status == 201
    shown = api.get("/vhosts/v").json
    assert (shown["name"], shown["description"], shown["tags"]) == ("v", "d", ["x", "y"])
    assert shown["tracing"] is True and shown["default_queue_type"] == "classic"
    assert api.put("/vhosts/v", {"tags": ["z"], "tracing": False}).status == 204
    changed = api.get("/vhosts/v").json
    assert (changed["description"], changed["tags"], changed["tracing"]) == ("d", ["z"], False)
    assert api.put("/vhosts/v", b"").status == 204
    assert api.get("/vhosts/v").json == changed
    assert api.delete("/vhosts/v").status == 204
    assert api.delete("/vhosts/v").error == (404, "Object Not Found", "Not Found")


def test_the_creator_of_a_virtual_host_gets_all_permissions(api: Api) -> None:
    api.put("/vhosts/v")
    (permission,) = api.get("/vhosts/v/permissions").json
    assert permission == {"user": "guest", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"}
    assert len(api.host.node.vhosts["v"].exchanges) == 7


def test_a_virtual_host_that_cannot_be_is_not_made(api: Api) -> None:
    assert api.put("/vhosts/v", {"default_queue_type": "heap"}).status == 400
    assert api.put("/vhosts/v", {"tracing": "perhaps"}).status == 400
    assert api.put("/vhosts/" + "v" * 256).status == 400
    assert [vhost["name"] for vhost in api.get("/vhosts").json] == ["/"]


def test_a_protected_virtual_host_is_not_deleted(api: Api) -> None:
    api.put("/vhosts/v")
    assert api.post("/vhosts/v/deletion/protection").status == 204
    assert api.delete("/vhosts/v").error[:2] == (412, "precondition_failed")
    assert api.get("/vhosts/v").json["protected_from_deletion"] is True
    assert api.delete("/vhosts/v/deletion/protection").status == 204
    assert api.delete("/vhosts/v").status == 204


def test_limits_of_a_virtual_host_are_set_shown_and_cleared(api: Api) -> None:
    api.peer.add_user("m", ("management",))
    assert api.get("/vhost-limits").json == []
    assert api.put("/vhost-limits/%2F/max-queues", {"value": 5}).status == 204
    reason = 'Validation failed\n\nmax-connections should be a number, actually was <<"7">>\n'
    assert api.put("/vhost-limits/%2F/max-connections", {"value": "7"}).error == (400, "bad_request", reason)
    assert api.put("/vhost-limits/%2F/max-connections", {"value": 7}).status == 204
    shown = [{"vhost": "/", "value": {"max-queues": 5, "max-connections": 7}}]
    assert api.get("/vhost-limits").json == api.get("/vhost-limits/%2F", user="m").json == shown
    assert api.delete("/vhost-limits/%2F/max-queues").status == 204
    assert api.get("/vhost-limits").json == [{"vhost": "/", "value": {"max-connections": 7}}]
    assert api.delete("/vhost-limits/%2F/max-connections").status == 204
    assert api.delete("/vhost-limits/%2F/max-connections").status == 204
    assert api.get("/vhost-limits/%2F").json == [] and api.get("/vhost-limits/nowhere").status == 404


def test_limits_apply_to_new_objects_until_they_are_cleared(api: Api) -> None:
    api.peer.add_user("m")
    assert api.put("/vhost-limits/%2F/max-queues", {"value": 1}).status == 204
    assert api.put("/queues/%2F/one").status == 201
    status, error, reason = api.put("/queues/%2F/two").error
    assert (status, error) == (400, "bad_request") and "queue limit in vhost '/' (1) is reached" in reason
    assert api.delete("/vhost-limits/%2F/max-queues").status == 204
    assert api.put("/queues/%2F/two").status == 201
    assert api.put("/user-limits/m/max-connections", {"value": 1}).status == 204
    api.peer.connect(user="m", password="m")
    second = api.peer.dial()
    second.start()
    second.login("PLAIN", "\0m\0m")
    second.tune()
    second.send(Connection.Open, virtual_host="/")
    assert second.expect_close(530).reply_text.startswith("NOT_ALLOWED - ")


def test_limits_of_a_user_are_set_shown_to_that_user_and_cleared(api: Api) -> None:
    api.peer.add_user("m", ("management",))
    assert api.put("/user-limits/m/max-channels", {"value": 5}).status == 204
    shown = [{"user": "m", "value": {"max-channels": 5}}]
    assert api.get("/user-limits").json == api.get("/user-limits/m", user="m").json == shown
    assert api.get("/user-limits/guest", user="m").status == 401
    assert api.put("/user-limits/m/max-channels", {"value": 6}, user="m").status == 401
    assert api.delete("/user-limits/m/max-channels").status == 204
    assert api.get("/user-limits/m").json == [] and api.get("/user-limits/nobody").status == 404
    refused = (400, "bad_request", ["no_such_user", "nobody"])
    assert api.put("/user-limits/nobody/max-channels", {"value": 1}).error == refused


@pytest.mark.parametrize("path", ["/vhost-limits/%2F", "/user-limits/guest"])
def test_an_invalid_limit_is_refused(api: Api, path: str) -> None:
    status, error, reason = api.put(path + "/max-nothing", {"value": 5}).error
    assert (status, error) == (400, "bad_request")
    assert 'Unrecognised terms [{<<"max-nothing">>,5}] in ' in reason
    assert api.put(path + "/max-connections", {}).error[2] == "[{key_missing,value}]"
    assert api.put(path + "/max-connections", {"value": "many"}).status == 400
    assert api.get(path).json == []


def test_a_virtual_host_has_its_totals_and_rates(api: Api) -> None:
    api.peer.add_vhost("v")
    api.peer.node.users.set_permission("guest", "v", ".*", ".*", ".*")
    channel = api.peer.connect().channel()
    for queue in ("a", "b"):
        channel.declare(queue)
        channel.publish("", queue, b"body")
    assert channel.get("a", no_ack=False) is not None
    of_all, empty = api.get("/vhosts").json
    assert of_all == api.get("/vhosts/%2F").json
    fields = ("messages", "messages_ready", "messages_unacknowledged", "recv_oct", "send_oct")
    assert [of_all[name] for name in fields[:3]] == [2, 1, 1]
    (connection,) = api.host.connections()
    assert [of_all[name] for name in fields[3:]] == [connection.received_bytes, connection.sent_bytes]
    assert all(one[f"{name}_details"] == {"rate": 0.0} for name in fields for one in (of_all, empty))
    assert of_all["message_stats"]["publish"] == 2 and of_all["message_stats"]["get"] == 1
    assert [empty[name] for name in fields] == [0, 0, 0, 0, 0] and "message_stats" not in empty
    cheap = api.get("/vhosts/%2F?disable_stats=true").json
    assert cheap.keys().isdisjoint({*fields, "message_stats"})
    assert api.get("/vhosts/%2F?disable_stats=true&enable_queue_totals=true").json["messages"] == 2


def test_byte_counts_of_a_virtual_host_stay_when_connections_end(api: Api) -> None:
    client = api.peer.connect()
    client.channel()
    before = api.get("/vhosts/%2F").json["recv_oct"]
    client.pipe.close()
    assert api.host.connections() == []
    assert api.get("/vhosts/%2F").json["recv_oct"] >= before > 0


def test_starting_a_virtual_host_changes_nothing(api: Api) -> None:
    assert api.post("/vhosts/%2F/start/" + api.host.node.name.replace("@", "%40")).status == 204
    assert api.post("/vhosts/%2F/start/other").status == 404
    assert api.post("/vhosts/nowhere/start/other").status == 404
