"""Login and authorization, and the responses to refused requests."""

import base64
import gc
import weakref
from typing import Any

import pytest

from tests.support.hashing import FakeHashing
from tests.support.http import Api
from warren.broker.amqp.properties import Properties
from warren.plugins.http import auth, responses
from warren.plugins.http.responses import HTTPError

REFUSED = (401, "not_authorized", "Not_Authorized")


def test_a_request_without_credentials_gets_a_challenge(api: Api) -> None:
    answer = api.get("/vhosts", user=None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_a_wrong_password_is_not_authorized(api: Api) -> None:
    answer = api.get("/vhosts", password="wrong")
    assert answer.error == REFUSED
    assert "www-authenticate" not in answer.headers
    assert api.get("/vhosts", user="nobody").error == REFUSED
    assert api.get("/vhosts", password="").error == REFUSED


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", "Basic \xe9", "Digest x", "Basic " + base64.b64encode(b"guest").decode()]
)
def test_malformed_basic_authentication_is_a_bad_request(api: Api, header: str) -> None:
    assert api.get("/vhosts", headers={"Authorization": header}).error[:2] == (400, "bad_request")


def test_a_token_is_not_authorized(api: Api) -> None:
    answer = api.get("/vhosts", headers={"Authorization": "Bearer abc"})
    assert answer.error == REFUSED and "www-authenticate" not in answer.headers


def test_a_request_without_the_right_gets_the_reason_of_the_route(api: Api) -> None:
    api.peer.add_user("plain")
    api.peer.add_user("manager", ("management",))
    said = {
        "/definitions": "Not administrator user", "/nodes": "Not monitor user",
        "/parameters": "User not authorised to access object",
        "/policies/%2F/p": "User not authorised to access object",
        "/operator-policies/%2F/p": "Not administrator user",
    }  # fmt: skip
    for path, reason in said.items():
        assert api.get(path, user="manager").error == (401, "not_authorised", reason)
        assert api.get(path, user="plain").error == (401, "not_authorised", "Not management user")


def test_monitoring_sees_figures_of_all_virtual_hosts_and_objects_of_its_own(api: Api) -> None:
    api.put("/vhosts/v")
    api.put("/queues/v/q")
    for name, tag in (("watch", "monitoring"), ("m", "management")):  # with permissions in `/` only
        api.peer.add_user(name, (tag,))
    refused = (401, "not_authorised", "User not authorised to access virtual host")
    for path in ("/queues/v", "/queues/v/q", "/exchanges/v", "/bindings/v", "/vhosts/v/connections"):
        assert api.get(path, user="watch").error == refused
    for path in ("/queues", "/exchanges", "/bindings", "/policies"):
        assert {one["vhost"] for one in api.get(path, user="watch").json} <= {"/"}
    assert [one["name"] for one in api.get("/vhosts", user="watch").json] == ["/", "v"]
    assert [one["name"] for one in api.get("/vhosts", user="m").json] == ["/"]
    assert api.get("/vhost-limits/v", user="watch").json == api.get("/consumers/v", user="watch").json == []


def test_a_login_is_checked_by_a_form(api: Api) -> None:
    api.peer.add_user("plain")
    assert api.get("/auth", user=None).json == {"oauth_enabled": False}
    headers = {"content-type": "application/x-www-form-urlencoded"}

    def log_in(form: bytes) -> Any:
        return api.request("POST", "/login", form, user=None, headers=headers)

    answer = log_in(b"username=guest&password=guest")
    assert (answer.status, answer.json) == (200, "ok")
    for form in (b"username=guest&password=wrong", b"username=guest", b"", b"\xff"):
        assert log_in(form).error == REFUSED
    assert log_in(b"username=plain&password=plain").error == (401, "not_authorised", "Not management user")


def test_guest_logs_in_from_this_machine_only(api: Api) -> None:
    assert api.get("/vhosts", address="::1").status == 200
    refused = (401, "not_authorised", "User can only log in via localhost")
    assert api.get("/vhosts", address="10.0.0.1").error == refused
    assert api.get("/vhosts", address="::ffff:10.0.0.1").error == refused
    api.peer.add_user("other", ("management",))
    assert api.get("/vhosts", user="other", address="10.0.0.1").status == 200
    api.peer.node.users.loopback_only = frozenset()
    assert api.get("/vhosts", address="10.0.0.1").status == 200


def test_refused_logins_are_logged_without_the_password(api: Api) -> None:
    api.get("/vhosts", password="secret-word")
    ((_event, level, fields),) = [line for line in api.peer.log if line[0] == "http_login_refused"]
    assert (level, fields["reason"]) == ("warning", "user 'guest' - invalid credentials")
    assert "secret-word" not in str(api.peer.log)


def test_logins_are_events(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("events")
    channel.bind("events", "amq.rabbitmq.event", "user.authentication.*")
    api.get("/vhosts", address="::1")
    api.get("/vhosts", password="wrong")
    received = []
    while (event := channel.get("events")) is not None:
        headers = Properties.decode(event.property_bytes).headers
        assert headers is not None
        received.append((event.method.routing_key, {name: value for name, (_, value) in headers.items()}))
    (success, by), (failure, why) = received
    assert (success, failure) == ("user.authentication.success", "user.authentication.failure")
    assert (by["name"], by["connection_type"], by["peer_host"]) == (b"guest", b"http", b"{0,0,0,0,0,0,0,1}")
    assert (why["name"], why["error"]) == (b"guest", b"user 'guest' - invalid credentials") and "error" not in by


def test_too_many_waiting_logins_are_503_without_a_hint_about_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()
    errors: list[weakref.ref[HTTPError]] = []

    def not_now(reason: str) -> HTTPError:
        error = responses.not_now(reason)
        errors.append(weakref.ref(error))
        return error

    monkeypatch.setattr(auth, "not_now", not_now)
    gc.collect()
    gc.disable()
    try:
        hashing = FakeHashing()
        api.peer.node.users.hashing = hashing
        hashing.busy = True
        answer = api.get("/whoami", password="wrong")
        assert (answer.status, answer.json["error"]) == (503, "service_unavailable")
        (error,) = errors
        assert error() is None, "it is freed without the garbage collector"
    finally:
        gc.enable()
        api.close()


def test_events_and_policymakers_show_no_password_of_an_upstream(api: Api) -> None:
    upstream = "/parameters/federation-upstream/%2F/up"
    api.peer.add_user("maker", ("policymaker",))
    channel = api.peer.connect("maker", "maker").channel()
    channel.declare("events", exclusive=True)
    channel.bind("events", "amq.rabbitmq.event", "parameter.set")
    api.put(upstream, {"value": {"uri": "amqp://bob:secret@127.0.0.1:1"}})
    event = channel.get("events")
    assert event is not None
    redacted = {"uri": "amqp://bob:[redacted]@127.0.0.1:1"}
    assert event.headers["value"] == api.get(upstream, user="maker").json["value"] == redacted
    assert api.get(upstream).json["value"] == {"uri": "amqp://bob:secret@127.0.0.1:1"}
