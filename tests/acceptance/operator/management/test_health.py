"""Health checks."""

import asyncio
import dataclasses
import datetime
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trustme

from tests.support.http import Api, asgi_scope, call_application
from warren.broker.net.tls import TLS, TLSOptions
from warren.broker.plugin_host.host import Listening
from warren.broker.plugin_host.standby_host import StandbyHost
from warren.plugins.management.standby import StandbyAPI


@pytest.fixture
def listening(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[Listening]:
    """The addresses that the broker is bound to."""
    found = [Listening("amqp", "127.0.0.1:5672"), Listening("http", "[::1]:15672")]
    monkeypatch.setattr(api.host, "listening", lambda: found)
    return found


@pytest.mark.parametrize("path", [
    *("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "metadata-store/initialized"),
    *("metadata-store/initialized/with-data", "reached-target-cluster-size", "certificate-expiration/1/weeks"),
    *("quorum-queues-without-elected-leaders/all-vhosts/", "quorum-queues-without-elected-leaders/vhost/%2F/"),
])  # fmt: skip
def test_a_healthy_node_answers_ok(api: Api, path: str) -> None:
    answer = api.get(f"/health/checks/{path}")
    assert (answer.status, answer.json["status"]) == (200, "ok")


def test_unrestored_definitions_fail_the_check_and_are_named_to_monitoring(api: Api) -> None:
    path = "/health/checks/stored-definitions"
    assert api.get(path).json == {"status": "ok"}
    line = "operator_policy 'short' in vhost '/': its pattern is invalid"
    api.host.node.not_restored = lambda: [line]
    reason = "Stored definitions could not be restored at the start"
    answer = api.get(path)
    assert (answer.status, answer.json) == (503, {"status": "failed", "reason": reason, "definitions": [line]})
    assert api.get(f"/nodes/{api.host.node.name}").json["not_restored"] == [line]
    api.peer.add_user("m", ("management",))
    assert api.get(path, user="m").error == (401, "not_authorised", "Not monitor user")


def test_the_check_of_alarms_names_node_and_resource(api: Api) -> None:
    api.host.node.alarms.set("disk")
    node = api.host.node.name
    reason, alarms = "There are alarms in effect in the cluster", [{"node": node, "resource": "disk space"}]
    assert api.get("/health/checks/alarms").json == {"status": "failed", "reason": reason, "alarms": alarms}
    answer = api.get("/health/checks/local-alarms")
    assert (answer.status, answer.json["reason"]) == (503, "There are alarms in effect on the node")
    assert api.get("/healthchecks/node").json["status"] == "failed"
    api.host.node.alarms.clear("disk")
    assert api.get(f"/healthchecks/node/{node}").json == {"status": "ok"}


def test_ports_and_protocols_are_checked_against_bound_listeners(api: Api, listening: list[Listening]) -> None:
    assert api.get("/health/checks/port-listener/15672").json == {"status": "ok", "port": 15672}
    answer = api.get("/health/checks/port-listener/1")
    said = {"status": "failed", "reason": "No active listener", "missing": 1, "ports": [5672, 15672]}
    assert (answer.status, answer.json) == (503, said)
    assert api.get("/health/checks/port-listener/-1").json["missing"] == -1
    for port in ("x", "1" * 9):
        assert api.get(f"/health/checks/port-listener/{port}").error == (400, "bad_request", "Invalid port")
    for spelling in ("amqp091", "AMQP", "amqp0-9-1"):
        answer = api.get(f"/health/checks/protocol-listener/{spelling}")
        assert answer.json == {"status": "ok", "protocol": "amqp"}
    for protocol in ("mqtt", "amqp10", "amqp1.0", "amqp1-0"):
        answer = api.get(f"/health/checks/protocol-listener/{protocol}")
        assert (answer.status, answer.json["missing"]) == (503, protocol)
    answer = api.get("/health/checks/protocol-listener/amqp0-9-1,http_api")
    assert answer.json == {"status": "ok", "protocols": ["amqp", "http"]}
    answer = api.get("/health/checks/protocol-listener/mqtt,amqps,amqp")
    assert (answer.status, answer.json["missing"]) == (503, ["mqtt", "amqp/ssl"])


def test_load_balancers_ask_without_a_password(api: Api, listening: list[Listening]) -> None:
    for path in ("is-in-service", "below-node-connection-limit", "ready-to-serve-clients"):
        answer = api.get(f"/health/checks/{path}", user=None)
        assert (answer.status, answer.json) == (200, {"status": "ok"}) and "no-store" in answer.headers["cache-control"]
    listening.clear()
    answer = api.get("/health/checks/ready-to-serve-clients", user=None)
    assert (answer.status, answer.json["reason"]) == (503, "no active listeners for AMQP/AMQPS")


def test_a_node_with_as_many_connections_as_it_may_have_is_not_ready(api: Api, listening: list[Listening]) -> None:
    api.host.config = dataclasses.replace(api.host.config, connection_max=1)
    api.peer.connect()
    for path in ("below-node-connection-limit", "ready-to-serve-clients"):
        answer = api.get(f"/health/checks/{path}", user=None)
        said = {"status": "failed", "reason": "node connection limit is reached", "connections": 1}
        assert (answer.status, answer.json) == (503, said)


def test_expiring_certificates_have_their_listener(api: Api, listening: list[Listening], tmp_path: Path) -> None:
    authority, now = trustme.CA(), datetime.datetime.fromtimestamp(api.peer.clock.timestamp_s())
    day = datetime.timedelta(days=1)
    leaf = authority.issue_cert("localhost", not_before=now - day, not_after=now + 3 * day)
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "leaf.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    options = TLSOptions(str(tmp_path / "leaf.pem"), cacertfile=str(tmp_path / "ca.pem"))
    listening.append(Listening("amqp/ssl", "127.0.0.1:5671", TLS(options, lambda *line: None)))
    assert api.get("/health/checks/certificate-expiration/2/days").status == 200
    answer = api.get("/health/checks/certificate-expiration/1/weeks")
    (fields,) = answer.json["expired"]
    assert (answer.status, answer.json["reason"]) == (503, "Certificates expiring")
    assert (fields["protocol"], fields["port"], fields["certfile"]) == ("amqp/ssl", 5671, options.certfile)
    (end,) = fields["certfile_expires_on"]
    assert abs(ssl.cert_time_to_seconds(end) - (now + 3 * day).replace(tzinfo=datetime.UTC).timestamp()) < 86_400
    assert fields["cacertfile_expires_on"] == ["Jan  1 00:00:00 3000 GMT"]
    said = "Time unit not recognised. Supported units: days, weeks, months, years."
    assert api.get("/health/checks/certificate-expiration/1/foo").error == (400, "bad_request", said)
    said = "Invalid expiration value."
    assert api.get("/health/checks/certificate-expiration/x/days").error == (400, "bad_request", said)
    assert api.get("/health/checks/certificate-expiration/1/DAYS").status == 200


def test_a_virtual_host_is_alive_if_its_test_message_is_got(api: Api) -> None:
    assert api.get("/aliveness-test/%2F").json == {"status": "ok"}
    assert api.get("/aliveness-test/%2F/").json == {"status": "ok"}
    assert api.host.node.vhosts["/"].queues["aliveness-test"].ready == 0
    assert api.get("/aliveness-test/nope").status == 404
    api.peer.add_user("m", ("management",), ("", "", ""))
    assert api.get("/aliveness-test/%2F", user="m").error == (401, "not_authorised", "Access refused.")


@pytest.mark.parametrize("prefix", ["", "/rmq", "/rmq/"])
def test_health_checks_say_standby_below_each_form_of_the_prefix(prefix: str) -> None:
    host: Any = SimpleNamespace(config=SimpleNamespace(management=SimpleNamespace(path_prefix=prefix)))
    scope, body = asgi_scope("GET", "/health/checks/ready-to-serve-clients")
    scope["raw_path"] = prefix.rstrip("/").encode() + scope["raw_path"]
    response = asyncio.run(call_application(StandbyAPI(cast(StandbyHost, host)), scope, body))
    assert (response.status, response.json["reason"]) == (503, "standby")
