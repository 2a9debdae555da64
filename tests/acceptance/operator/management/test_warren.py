"""Routes that RabbitMQ does not have, and the API at the unix socket."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import Api, HTTPClient
from tests.support.polling import until
from tests.support.prepared import path_of
from tests.support.users import set_tags
from tests.support.warrenctl import Controlled, commanded
from warren.broker.config import Config, HTTPListener, Management
from warren.broker.control_socket import NAME
from warren.broker.core.definitions.importer import begin_import
from warren.broker.core.metadata.unfinished_import import UNFINISHED_IMPORT, digest_of
from warren.broker.core.policies.parameters import CLUSTER_ID
from warren.broker.ctl.api_client import LocalAPI, UnixConnection, basic_credentials
from warren.broker.ctl.errors import APIError, NotFound
from warren.broker.operator import local_socket
from warren.plugins.http.auth import LOCAL
from warren.plugins.management.api import routes

pytestmark = pytest.mark.sockets


@pytest.fixture
def local(controlled: Controlled) -> Any:
    made = LocalAPI(controlled.folder, 20.0)
    yield made
    made.close()


def test_no_header_of_an_administrator_over_tcp_reaches_a_local_route(api: Api) -> None:
    headers = {"X-Forwarded-For": "localhost", "Forwarded": "for=unix"}
    refused = 401, "not_authorised", "Only at the unix socket of the node"
    local = [route for route in routes().all if route.guard is LOCAL]
    responses = {route: api.request(route.method, path_of(api, route), {}, headers=headers) for route in local}
    wrong = [f"{route}: {response}" for route, response in responses.items() if response.error != refused]
    assert local and not wrong, "\n".join(wrong)


def test_an_import_of_the_same_file_and_a_reset_clear_the_mark(controlled: Controlled, local: Any) -> None:
    node = controlled.host.node

    def interrupted() -> None:
        begin_import(node, digest_of(b"{}"), None)

    controlled.listening.call(interrupted)
    local.post("warren", "definitions", body='{"vhosts": []}')
    assert UNFINISHED_IMPORT in node.parameters.globals()
    local.post("warren", "definitions", body="{ }")
    assert UNFINISHED_IMPORT not in node.parameters.globals()

    controlled.listening.call(interrupted)
    controlled.listening.call(lambda: node.parameters.set_global(CLUSTER_ID, "id"))
    query = {"skip-if-unchanged": "true"}
    for _ in range(2):
        local.request("POST", ("warren", "definitions"), '{"vhosts": [{"name": "new"}]}', query)
        assert "new" in node.vhosts
        controlled.host.control.app_is_stopped = True
        local.post("warren", "reset")
        assert node.parameters.globals() == {CLUSTER_ID: "id"} and "new" not in node.vhosts


def test_limits_are_sizes_or_fractions(api: Api) -> None:
    assert api.put("/warren/limits/memory", {"bytes": 5_000_000}).status == 204
    assert api.put("/warren/limits/disk", {"fraction": 0.5}).status == 204
    resources = api.host.resources
    assert (resources.memory_limit_bytes, resources.disk_free_limit_bytes) == (5_000_000, 1 << 29)
    for body in (
        {}, {"bytes": -1}, {"bytes": 1 << 63}, {"bytes": 10**400}, {"fraction": -0.5}, {"fraction": 1e300},
        {"bytes": 1, "fraction": 0.5}, {"bytes": "many"},
    ):  # fmt: skip
        assert api.put("/warren/limits/memory", body).status == 400
        assert api.put("/warren/limits/disk", body).status == 400


def test_limits_of_a_vhost_and_of_a_user_are_one_change(api: Api) -> None:
    assert api.put("/warren/vhost-limits/%2F", {"value": {"max-queues": 5, "max-connections": 6}}).status == 204
    assert api.get("/vhost-limits/%2F").json[0]["value"] == {"max-queues": 5, "max-connections": 6}
    assert api.put("/warren/user-limits/guest", {"value": {"max-channels": 5, "max-connections": 6}}).status == 204
    assert api.get("/user-limits/guest").json[0]["value"] == {"max-channels": 5, "max-connections": 6}
    assert api.put("/warren/user-limits/guest", {"value": {"max-channels": 5, "nonsense": 6}}).status == 400
    assert api.put("/warren/user-limits/nobody", {"value": {}}).status == 404


def test_policies_that_match_are_listed_by_priority(api: Api) -> None:
    api.put("/queues/%2F/q")
    for name, priority in (("low", 1), ("high", 2)):
        policy = {"pattern": "^q$", "definition": {"max-length": 5}, "priority": priority}
        assert api.put(f"/policies/%2F/{name}", policy).status == 201
    found = api.get("/warren/matching-policies/%2F/queue/q").json
    assert [policy["name"] for policy in found] == ["high", "low"]
    assert api.get("/warren/matching-policies/%2F/exchange/amq.topic").json == []
    assert api.get("/warren/matching-policies/%2F/queue/none").status == 404
    assert api.get("/warren/matching-policies/none/queue/q").status == 404


def test_the_log_is_read_and_its_level_checked(api: Api) -> None:
    assert api.get("/warren/log").json["level"] == "info"
    assert api.get("/warren/log/tail?lines=0").json == {"lines": []}
    assert api.get("/warren/log/tail?lines=-1").status == 400
    assert api.put("/warren/log", {"level": "loud"}).error[0] == 400
    assert api.get("/warren/events?pattern=%28").status == 400
    assert api.get("/warren/events?duration=soon").status == 400
    assert api.get("/warren/events?duration=0").headers["content-type"] == "application/x-ndjson"
    api.peer.add_user("watch", ("monitoring",))
    assert api.get("/warren/log/tail", user="watch").status == 401


def test_a_stream_ends_when_its_reader_loses_the_right(tmp_path: Path) -> None:
    """Over TCP, where the caller is a user."""
    tcp = HTTPListener(port=0, ip="127.0.0.1")
    controlled = Controlled(tmp_path, Config(data_dir=str(tmp_path), management=Management(tcp=tcp)))
    controlled.open()
    host, local = controlled.host, LocalAPI(tmp_path, 20.0)
    controlled.listening.call(host.node.start_events)

    async def serve() -> Any:
        from warren.plugins.management.service import ManagementService

        service = ManagementService()
        await service.start(host)
        return service

    service = controlled.listening.run(serve())
    port = next(one.port for one in host.listening() if one.protocol == "http")
    controlled.listening.call(set_tags, host.node.users, "guest", ["administrator"])
    connection = HTTPClient(f"127.0.0.1:{port}").connect()
    headers = {"Authorization": basic_credentials("guest", "guest")}
    connection.request("GET", "/api/warren/events?pattern=user", headers=headers)
    response = connection.getresponse()
    local.put("users", "u", body={"password_hash": "", "tags": ""})
    assert json.loads(response.readline())["event"] == "user.created"
    controlled.listening.call(set_tags, host.node.users, "guest", ["monitoring"])
    local.delete("users", "u")
    assert response.read() == b""
    connection.close()
    until(lambda: not host.node.events.hooks)
    controlled.listening.run(service.stop())
    local.close()
    controlled.close()


# The unix socket.


def test_no_header_makes_another_caller_of_a_local_one(local: LocalAPI) -> None:
    assert local.request("GET", ("whoami",), login=("nobody", "wrong"))["name"] == "rmq-cli"
    assert local.request("GET", ("whoami",), headers={"Host": "attacker.example"})["name"] == "rmq-cli"


def test_a_virtual_host_created_by_a_local_caller_gives_no_permissions(controlled: Controlled, local: LocalAPI) -> None:
    local.put("vhosts", "v")
    assert local.get("vhosts", "v", "permissions") == []
    local.put("queues", "v", "q", body={"durable": True})
    assert "q" in controlled.host.node.vhosts["v"].queues


def test_processes_of_other_users_are_turned_away(
    controlled: Controlled, local: LocalAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.get("whoami")["name"] == "rmq-cli"
    local.close()
    monkeypatch.setattr(local_socket, "peer_uid", lambda accepted: os.geteuid() + 1)
    with pytest.raises(Exception, match=r"closed|reset|gone|Broken"):
        LocalAPI(controlled.folder, 20.0).get("whoami")
    monkeypatch.setattr(local_socket, "peer_uid", lambda accepted: 0)
    root = LocalAPI(controlled.folder, 20.0)
    assert root.get("whoami")["name"] == "rmq-cli"
    root.close()


def test_the_uid_of_a_peer_is_that_of_its_process() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert local_socket.peer_uid(one) == os.geteuid()


def test_the_api_there_needs_no_listener_on_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config(data_dir=str(tmp_path), management=Management(tcp=HTTPListener(), path_prefix="/behind"))
    node = Controlled(tmp_path, config)
    node.open()
    assert commanded(monkeypatch, capsys, "--data", str(tmp_path))("ping -q") == (0, "Ping succeeded\n", "")
    assert not node.host.listening()
    node.close()


def test_alarms_and_settings_are_changed(controlled: Controlled, local: LocalAPI) -> None:
    local.put("warren", "alarms", "disk")
    assert controlled.host.node.alarms.on() == ["disk"]
    local.delete("warren", "alarms", "disk")
    assert not controlled.host.node.alarms.on()
    with pytest.raises(NotFound):
        local.put("warren", "alarms", "patience")
    local.put("warren", "settings", body={"channel_max": 70_000, "loopback_users": ["b", "a"]})
    settings = local.get("warren", "settings")
    assert (settings["channel_max"], settings["loopback_users"]) == (65_535, ["a", "b"])
    with pytest.raises(APIError):
        local.put("warren", "settings", body={"channel_max": -1})


def test_conditions_of_a_deletion_are_checked(controlled: Controlled, local: LocalAPI) -> None:
    local.put("queues", "/", "q", body={"durable": True})
    message = {"properties": {}, "routing_key": "q", "payload": "1", "payload_encoding": "string"}
    local.post("exchanges", "/", "amq.default", "publish", body=message)
    with pytest.raises(APIError, match="not empty"):
        local.delete("warren", "queues", "/", "q", query={"if-empty": "true"})
    local.delete("warren", "queues", "/", "q", "contents")
    assert local.delete("warren", "queues", "/", "q", query={"if-empty": "true"}) == {"messages_ready": 0}


def test_definitions_are_imported_once_if_that_is_asked_for(controlled: Controlled, local: LocalAPI) -> None:
    document = json.dumps({"global_parameters": [{"name": "g", "value": 5}]})
    path = ("warren", "definitions")
    skip = {"skip-if-unchanged": "true"}
    assert local.request("POST", path, document, skip) == {"skipped": []}
    local.delete("global-parameters", "g")
    local.request("POST", path, document, skip)
    with pytest.raises(NotFound):
        local.get("global-parameters", "g")
    local.request("POST", path, document)
    assert local.get("global-parameters", "g")["value"] == 5
    with pytest.raises(APIError, match="failed to parse JSON"):
        local.request("POST", path, "{")
    node = controlled.host.node
    for vhost in (None, "/"):  # an import of the same document is interrupted: it is done again
        local.delete("global-parameters", "g")
        controlled.listening.call(begin_import, node, digest_of(document.encode()), vhost)
        local.request("POST", path, document, skip)
        assert local.get("global-parameters", "g")["value"] == 5
        assert UNFINISHED_IMPORT not in node.parameters.globals()


def test_a_node_that_ends_ends_streams_and_connections(tmp_path: Path) -> None:
    node = Controlled(tmp_path)
    node.open()
    reader, waiting = LocalAPI(tmp_path, 20.0), LocalAPI(tmp_path, 20.0)
    lines = reader.lines("warren", "log", "stream")
    waiting.post("warren", "shutdown")
    node.close()
    waiting.wait_for_end()
    assert list(lines) == []
    assert not (tmp_path / NAME).exists()
    reader.close()
    waiting.close()
    with pytest.raises(OSError):
        UnixConnection(tmp_path, 1.0).connect()


def test_protected_users_are_changed_there_and_not_over_tcp(local: LocalAPI) -> None:
    for tags in ("protected", "protected,management"):
        local.put("users", "kept", body={"password_hash": "", "tags": tags})
    assert local.get("users", "kept")["tags"] == ["protected", "management"]
    local.delete("users", "kept")
