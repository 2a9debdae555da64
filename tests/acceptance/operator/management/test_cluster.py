"""The cluster's name and features, logins, and other routes of the whole node."""

import base64

from tests.support.http import Api
from warren.broker.core.access.passwords import verify_password


def test_the_cluster_can_be_called_otherwise(api: Api) -> None:
    assert api.put("/cluster-name", {"name": "burrow", "more": 1}).status == 204
    assert api.get("/cluster-name").json == {"name": "burrow"}
    assert api.get("/overview").json["cluster_name"] == "burrow"
    assert api.put("/cluster-name", {}).error == (400, "bad_request", "[{key_missing,name}]")
    length = "has 1 to 255 octets"
    for name, reason in (("", length), ("x" * 256, length), ("a\n", "has more than one line")):
        refused = (400, "bad_request", f"the name of the cluster {reason}")
        assert api.put("/cluster-name", {"name": name}).error == refused
        assert api.put("/global-parameters/cluster_name", {"value": name}).error == refused
        imported = api.post("/definitions", {"global_parameters": [{"name": "cluster_name", "value": name}]})
        assert imported.error[0] == 400 and reason in imported.error[2]
    assert api.get("/cluster-name").json == {"name": "burrow"}


def test_whoami_returns_name_and_tags(api: Api) -> None:
    assert api.get("/whoami").json == {"name": "guest", "tags": ["administrator"], "is_internal_user": True}
    api.peer.add_user("m", ("management", "own"))
    assert api.get("/whoami", user="m").json["tags"] == ["management", "own"]


def test_a_requested_hash_accepts_its_password(api: Api) -> None:
    password_hash = api.get("/auth/hash_password/pass%2Fword").json["ok"]
    assert len(base64.b64decode(password_hash)) == 36
    assert verify_password(password_hash.encode(), b"pass/word")
    assert api.put("/users/u", {"tags": "", "password_hash": password_hash}).status == 201
    assert api.get("/users/u").json["password_hash"] == password_hash


def test_attempts_to_log_in_are_counted_by_protocol(api: Api) -> None:
    node = api.host.node.name
    api.peer.connect()
    api.get("/whoami", password="wrong")
    by_protocol = {one["protocol"]: one for one in api.get(f"/auth/attempts/{node}").json}
    assert by_protocol["amqp091"]["auth_attempts_succeeded"] == 1
    http = by_protocol["http"]
    assert (http["auth_attempts"], http["auth_attempts_succeeded"], http["auth_attempts_failed"]) == (2, 1, 1)
    assert api.get(f"/auth/attempts/{node}/source").json == []
    assert api.delete(f"/auth/attempts/{node}").status == 204
    assert api.get("/auth/attempts/other@host").status == 404


def test_features_are_all_enabled(api: Api) -> None:
    flags = api.get("/feature-flags").json
    assert {one["state"] for one in flags} == {"enabled"} and "quorum_queue" in {one["name"] for one in flags}
    assert api.put("/feature-flags/quorum_queue/enable").status == 204
    assert api.put("/feature-flags/nope/enable").status == 400
    deprecated = {one["name"]: one for one in api.get("/deprecated-features").json}
    assert deprecated["classic_queue_mirroring"]["deprecation_phase"] == "removed"
    assert set(deprecated["global_qos"]) == {"name", "desc", "deprecation_phase", "doc_url", "provided_by"}
    assert api.get("/deprecated-features/used").json == []


def test_small_things_that_tools_ask_for(api: Api) -> None:
    assert api.get("/version", user=None).json == api.host.node.version
    assert api.get("/extensions").json == [{"javascript": "dispatcher.js"}]
    assert api.post("/rebalance/queues").status == 204
    assert api.delete("/reset").status == api.delete(f"/reset/{api.host.node.name}").status == 204


def test_the_configuration_is_shown_without_secrets(api: Api) -> None:
    answer = api.get("/config/effective")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.body.splitlines()
    assert b"heartbeat = 60" in lines and not any(line.startswith(b"default_pass = ") for line in lines)
