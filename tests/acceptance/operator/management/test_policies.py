"""Policies and parameters over HTTP."""

import pytest

from tests.support.http import Api

PATHS = ("/policies", "/operator-policies")
BODY = {"pattern": "^q", "definition": {"max-length": 5}, "vhost": "ignored"}
SHOWN = {"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "all", "definition": {"max-length": 5}, "priority": 0}


@pytest.mark.parametrize("path", PATHS)
def test_a_policy_is_set_shown_changed_and_cleared(api: Api, path: str) -> None:
    api.put(f"{path}/%2F/p", BODY)
    assert api.get(f"{path}/%2F/p").json == SHOWN
    assert api.get(path).json == api.get(f"{path}/%2F").json == [SHOWN]
    assert api.put(f"{path}/%2F/p", BODY | {"priority": 7, "apply-to": "queues"}).status == 204
    changed = api.get(f"{path}/%2F/p").json
    assert (changed["priority"], changed["apply-to"]) == (7, "queues")
    assert api.put(f"{path}/%2F/low", BODY).status == 201
    assert [policy["name"] for policy in api.get(path).json] == ["low", "p"]
    assert api.delete(f"{path}/%2F/p").status == 204
    assert api.delete(f"{path}/%2F/p").status == 404
    assert api.get(f"{path}/%2F/p").error == (404, "Object Not Found", "Not Found")
    assert api.get(f"{path}/nowhere").status == 404


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("body", "reason"), [
    ({"pattern": "x"}, "[{key_missing,definition}]"),
    ({"pattern": "x", "definition": {}}, "no policy provided"),
    ({"pattern": "(", "definition": {"max-length": 5}}, "pattern should be regular expression"),
    ({"pattern": "x", "definition": {"max-length": 5}, "apply-to": "none"}, "apply-to 'none' unrecognised"),
    ({"pattern": "x", "definition": {"max-length": 5}, "apply-to": 5}, "apply-to '5' unrecognised"),
    ({"pattern": 5, "definition": {"max-length": 5}}, "pattern should be"),
    ({"pattern": "x", "definition": {"max-length": 5}, "priority": "high"}, "priority should be a number"),
])  # fmt: skip
def test_an_invalid_policy_is_refused_and_changes_nothing(api: Api, path: str, body: object, reason: str) -> None:
    status, error, reason_text = api.put(f"{path}/%2F/p", body).error
    assert (status, error) == (400, "bad_request") and reason in reason_text
    assert api.get(path).json == []


def test_reasons_of_policies_and_parameters_are_written_for_browsers(api: Api) -> None:
    body = {"pattern": "x", "definition": {"zz": "a&b"}}
    text = '[{<<"zz">>,<<"a&b">>}] are not recognised policy settings'
    escaped = '[{&lt;&lt;"zz"&gt;&gt;,&lt;&lt;"a&amp;b"&gt;&gt;}] are not recognised policy settings'
    assert escaped in api.put("/policies/%2F/p", body).error[2]
    assert text.split(",")[0] in api.put("/operator-policies/%2F/p", body).error[2]


def test_policymakers_have_their_virtual_hosts_and_no_operator_policies(api: Api) -> None:
    api.peer.add_vhost("hidden")
    api.peer.add_user("maker", ("policymaker",))
    api.peer.add_user("m", ("management",))
    assert api.put("/policies/%2F/p", BODY, user="maker").status == 201
    assert api.put("/policies/hidden/p", BODY).status == 201
    assert api.put("/policies/hidden/p", BODY, user="maker").status == 401
    assert [policy["vhost"] for policy in api.get("/policies", user="maker").json] == ["/"]
    assert api.get("/policies", user="m").json == [SHOWN]
    assert api.get("/policies/%2F/p", user="m").status == 401
    assert api.put("/operator-policies/%2F/p", BODY, user="maker").status == 401
    assert api.get("/operator-policies/%2F", user="m").status == 200


@pytest.mark.parametrize("key", ["dead-letter-exchange", "alternate-exchange"])
def test_a_policy_names_an_exchange_to_which_its_maker_may_not_write(api: Api, key: str) -> None:
    """SECURITY.md describes this for policies; the argument of a declaration requires the permission."""
    api.peer.add_user("maker", ("policymaker",), ("^mine", "^mine", "^mine"))
    channel = api.peer.connect().channel()
    channel.exchange("closed", "fanout")
    channel.declare("all")
    channel.bind("all", "closed")
    channel.exchange("mine", "fanout")
    channel.declare("mine.queue")
    assert api.put("/policies/%2F/p", {"pattern": "^mine", "definition": {key: "closed"}}, user="maker").status == 201
    path, argument = ("/queues/%2F/mine.2", f"x-{key}") if key.startswith("dead") else ("/exchanges/%2F/mine.2", key)
    declared = {"type": "classic" if key.startswith("dead") else "fanout", "arguments": {argument: "closed"}}
    assert api.put(path, declared, user="maker").status == 401
    assert api.put(path, declared | {"arguments": {argument: "mine"}}, user="maker").status == 201
    if key.startswith("dead"):
        channel.publish("", "mine.queue", b"1")
        channel.get("mine.queue", no_ack=False)
        channel.nack(1, requeue=False)
    else:
        channel.publish("mine", "", b"1")
    channel.sync()
    assert channel.drain("all") == [b"1"]


@pytest.mark.parametrize("component", ["operator_policy", "vhost-limits"])
def test_limits_of_policymakers_are_changed_by_administrators_only(api: Api, component: str) -> None:
    """RabbitMQ lets policymakers change both as parameters."""
    api.peer.add_user("maker", ("policymaker",))
    policy = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 0}
    name, value = ("p", policy) if component == "operator_policy" else ("limits", {"max-queues": 1})
    path = f"/parameters/{component}/%2F/{name}"
    refused = (401, "not_authorised", "Not administrator user")
    assert api.put(path, {"value": value}, user="maker").error == refused
    assert api.put(path, {"value": value}).status == 201
    assert api.delete(path, user="maker").error == refused
    assert api.get(path, user="maker").status == 200
    assert api.delete(path).status == 204
    for name in ("cluster_name", "internal_cluster_id", "imported_definition_hash_value"):
        assert api.put(f"/global-parameters/{name}", {"value": "x"}, user="maker").error == refused
    assert api.put("/global-parameters/other", {"value": "x"}, user="maker").status == 201


def test_changes_of_operator_policies_over_http_can_be_disallowed(api: Api) -> None:
    as_parameter = {"vhost": "/", "component": "operator_policy", "name": "p", "value": BODY}
    api.put("/operator-policies/%2F/p", BODY)
    (exported,) = api.get("/definitions").json["parameters"]
    here = Api(api.peer, operator_policy_changes_disabled=True)
    refused = (405, "method_not_allowed", "Broker settings disallow editing of operator policies.")
    other = BODY | {"pattern": "other"}
    for path in ("/operator-policies/%2F/p", "/parameters/operator_policy/%2F/p"):
        assert here.put(path, other | {"value": other}).error == refused
        assert here.delete(path).error == refused
    for path in ("/definitions", "/definitions/%2F"):
        assert here.post(path, {"parameters": [as_parameter | {"value": other}]}).error == refused
        assert here.post(path, {"parameters": [exported]}).status == 204  # it changes nothing
    assert here.get("/operator-policies/%2F/p").json == SHOWN
    assert here.put("/policies/%2F/p", BODY).status == 201


def test_a_parameter_is_set_shown_as_it_was_given_and_cleared(api: Api) -> None:
    path = "/parameters/federation-upstream/%2F/up"
    value = {"uri": "amqp://there", "max-hops": 2}
    assert api.put(path, {"value": value}).status == 201
    assert api.put(path, {"value": value}).status == 204
    shown = {"vhost": "/", "component": "federation-upstream", "name": "up", "value": value}
    assert api.get(path).json == shown
    for list_ in ("/parameters", "/parameters/federation-upstream", "/parameters/federation-upstream/%2F"):
        assert api.get(list_).json == [shown]
    assert api.get("/parameters/other").json == [] and api.get("/parameters/other/nowhere").status == 404
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404 and api.get(path).status == 404


def test_passwords_in_parameters_are_shown_to_administrators_only(api: Api) -> None:
    api.peer.add_user("maker", ("policymaker",))
    path = "/parameters/federation-upstream/%2F/up"
    value = {"uri": ["amqp://bob:secret@there", "amqps://there?password=secret"], "max-hops": 2}
    assert api.put(path, {"value": value}).status == 201
    assert api.get(path).json["value"] == value
    for at in (path, "/parameters", "/parameters/federation-upstream", "/parameters/federation-upstream/%2F"):
        answer = api.get(at, user="maker")
        assert b"bob" in answer.body and b"secret" not in answer.body
    read = api.get(path, user="maker").json["value"]
    assert read["max-hops"] == 2
    status, _, reason = api.put(path, {"value": read}, user="maker").error
    assert status == 400 and "has to be given again" in reason
    assert api.get(path).json["value"] == value
    assert api.put("/global-parameters/g", {"value": {"token": "secret", "size": 3}}).status == 201
    assert api.get("/global-parameters/g", user="maker").json["value"] == {"token": "[redacted]", "size": 3}
    assert api.get("/global-parameters/g").json["value"]["token"] == "secret"


def test_policies_are_no_parameters(api: Api) -> None:
    api.put("/policies/%2F/p", BODY)
    refused = (400, "bad_request", "policies may not be set using this method")
    assert api.put("/parameters/policy/%2F/p", {"value": 1}).error == refused
    assert api.delete("/parameters/policy/%2F/p").status == 404
    assert api.get("/parameters").json == [] and len(api.get("/policies").json) == 1


def test_parameters_of_the_whole_broker_are_set_shown_and_cleared(api: Api) -> None:
    assert api.put("/global-parameters/g", {"value": {"a": [1]}}).status == 201
    assert api.put("/global-parameters/g", {"value": 2}).status == 204
    assert api.get("/global-parameters/g").json == {"name": "g", "value": 2}
    assert {"name": "g", "value": 2} in api.get("/global-parameters").json
    assert api.put("/global-parameters/g", {}).status == 400
    assert api.delete("/global-parameters/g").status == 204
    assert api.delete("/global-parameters/g").status == 404 and api.get("/global-parameters/g").status == 404
