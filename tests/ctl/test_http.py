"""Commands by way of the HTTP API: of a running broker, and of a server that answers what it is told to."""

import http.server
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pika
import pytest
import trustme

from broker.ctl.commands import COMMANDS
from broker.ctl.http.api import API
from broker.ctl.http.commands import COMMANDS as BY_HTTP
from tests.support.warrenctl import Ready, Warrenctl, commanded, until

from .recorded import IN_ORDER, expected

pytestmark = pytest.mark.sockets

Answers = dict[str, tuple[int, object]]
"""Status and document by method and path."""


def test_commands_say_and_end_by_http_as_they_do_by_the_socket(
    ready: Ready, warrenctl: Warrenctl, by_http: Warrenctl
) -> None:
    lines = [one for one in IN_ORDER if by_http_too(one[0].split())]
    assert len(lines) > 50
    assert warrenctl("add_vhost v")[0] == 0  # who makes one by HTTP may enter it, and would be listed
    assert [(line, *by_http(line)) for line, *_ in lines] == expected(ready, lines)


def by_http_too(words: list[str]) -> bool:
    """An alarm is there because of what HTTP cannot do."""
    return "alarms" not in words and any(word in BY_HTTP for word in words)


ALIKE = [
    "list_vhosts name description tags default_queue_type protected_from_deletion tracing cluster_state metadata",
    "list_exchanges -s name type durable auto_delete internal arguments policy",
    "list_queues name durable auto_delete arguments policy operator_policy effective_policy_definition exclusive "
    "messages messages_ready messages_unacknowledged message_bytes consumers state type pid",
    "list_queues --formatter json",
    "list_bindings",
    "list_users --formatter csv",
    "list_consumers queue_name consumer_tag ack_required prefetch_count active activity_status exclusive arguments",
    "list_channels -q user vhost number transactional confirm consumer_count messages_unacknowledged prefetch_count",
    "list_connections -q user peer_host peer_port state client_properties channels protocol auth_mechanism frame_max",
    "list_feature_flags",
    "list_deprecated_features",
    "list_global_parameters",
    "cluster_status",
    "cluster_status --formatter json",
    "listeners",
    "listeners --formatter json",
    "alarms",
    "check_alarms",
    "check_local_alarms",
    "check_running",
    "check_virtual_hosts",
    "check_port_connectivity",
    "restart_vhost",
    "restart_vhost -p nowhere",
    "is_enabled rabbitmq_management",
    "enable",
    "check_protocol_listener http",
    "check_protocol_listener mqtt",
    "check_port_listener none",
    "check_certificate_expiration --within 1 --unit months",
    "check_certificate_expiration --unit centuries",
    "server_version",
    "environment",
    "log_location",
    "federation_status",
    "restart_federation_link abcd1234",
    "set_cluster_name one",
    "enable_feature_flag all",
    "enable_feature_flag none",
    "await_startup",
    "list_queues none",
    "-n other@nowhere list_users",
    "delete_queue --if-empty kept",
    "delete_queue --if-unused kept",
    "purge_queue kept",
    "import_definitions nowhere.json",
]


def test_what_is_told_by_http_is_what_is_told_by_the_socket(
    ready: Ready, warrenctl: Warrenctl, by_http: Warrenctl
) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", arguments={"x-max-length": 5})
        channel.basic_publish("", "kept", b"1")
        channel.basic_publish("", "kept", b"2")
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("kept", lambda *_: None, consumer_tag="tag")
        until(lambda: warrenctl("list_queues -s messages_unacknowledged")[1] == "1\n")
        for line in ALIKE:
            assert (line, *sorted_lines(by_http(line))) == (line, *sorted_lines(warrenctl(line)))


def sorted_lines(told: tuple[int, str, str]) -> tuple[int, list[str], str]:
    """Each door has lists in an order of its own, and repeats the command line where that is wrong."""
    status, out, err = told
    return status, sorted(out.splitlines()), err.partition("Arguments given")[0]


def parameters(ready: Ready, name: str = "mine") -> pika.ConnectionParameters:
    port = int(ready["amqp"][0].rpartition(":")[2])
    return pika.ConnectionParameters("127.0.0.1", port, client_properties={"connection_name": name})


@pytest.mark.parametrize(
    ("close", "reason"),
    [
        ("close_connection '{pid}' 'bye ☂'", "bye ☂"),
        ("close_all_user_connections guest bye", "bye"),
        ("close_all_connections --per-connection-delay 1 bye", "bye"),
    ],
)
def test_connections_are_closed_for_a_reason(ready: Ready, by_http: Warrenctl, close: str, reason: str) -> None:
    connection = pika.BlockingConnection(parameters(ready))
    channel = connection.channel()
    channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
    until(lambda: by_http("list_connections -s pid")[1] != "")
    pid = by_http("list_connections -s pid")[1].strip()
    assert by_http(close.format(pid=pid))[0] == 0
    with pytest.raises(pika.exceptions.ConnectionClosed, match=reason):
        channel.start_consuming()
    until(lambda: by_http("list_connections -s pid")[1] == "")


def test_definitions_go_out_and_come_in(by_http: Warrenctl, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    assert by_http("set_global_parameter kept 5")[0] == 0
    assert by_http(f"export_definitions {file}")[0] == 0
    assert by_http("clear_global_parameter kept")[0] == 0
    assert by_http(f"import_definitions {file}")[0] == 0
    assert "kept\t5\n" in by_http("list_global_parameters")[1]
    file.write_text('{"users":')
    assert by_http(f"import_definitions {file}")[0] == 69
    assert by_http(f"import_definitions --skip-if-unchanged {file}")[0] == 64


def test_status_has_the_sections_of_the_socket_and_what_http_tells(warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    told = by_http("status")[1]
    for section in ("Runtime", "Plugins", "Data directory", "Config files", "Log file(s)", "Alarms", "Tags", "Memory"):
        assert f"\n{section}\n\n" in told
    facts = json.loads(by_http("status --formatter json")[1])
    same = json.loads(warrenctl("status --formatter json")[1])
    assert facts.keys() == same.keys()
    for key in ("node_name", "pid", "rabbitmq_version", "log_files", "totals", "listeners", "vm_memory_limit"):
        assert facts[key] == same[key]
    assert by_http("memory_breakdown --unit mb")[1].startswith("Reporting memory breakdown on node rabbit@here...\n")


def test_a_report_tells_of_the_node_and_of_each_vhost_by_either_door(warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    for run in (warrenctl, by_http):
        status, out, err = run("report")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "Reporting server status of node rabbit@here ..."
        for banner in (
            "Status of node rabbit@here ...",
            "Cluster status of node rabbit@here ...",
            "Application environment of node rabbit@here ...",
            "Listing connections ...",
            "Listing channels ...",
            "Listing queues for vhost / ...",
            "Listing exchanges for vhost / ...",
            "Listing bindings for vhost /...",
            'Listing permissions for vhost "/" ...',
            'Listing policies for vhost "/" ...',
        ):
            assert banner in lines
        assert "guest\t.*\t.*\t.*" in lines


def test_a_vhost_is_protected_and_described(by_http: Warrenctl) -> None:
    assert by_http("add_vhost w --description d --tags a,b")[0] == 0
    assert by_http("enable_vhost_deletion_protection w")[0] == 0
    assert by_http("delete_vhost w")[0] == 69
    assert by_http("update_vhost_metadata w --description e")[0] == 0
    assert "w\te\t[a, b]\n" in by_http("list_vhosts name description tags")[1]
    assert by_http("disable_vhost_deletion_protection w")[0] == 0
    assert by_http("set_permissions_globally guest .* .* .*")[0] == 0
    assert by_http("set_permissions -p x guest .* .* .*")[::2] == (69, "Error:\nVirtual host x does not exist\n")
    assert by_http("delete_vhost w")[0] == 0


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - BY_HTTP.keys() - {"version", "report"}))
def test_what_http_cannot_do_is_told_in_one_line_and_nobody_is_asked(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = " ".join(["1"] * COMMANDS[command].least)
    told = commanded(monkeypatch, capsys, "--url", "http://127.0.0.1:1")(f"{command} {needed}")
    assert told == (64, "", f"warrenctl: {command} goes by the control socket, not by --url\n")


def test_credentials_are_never_shown(
    ready: Ready, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = ready["http"][0]
    run = commanded(monkeypatch, capsys, "--url", f"http://me:secret@{address}")
    refused = (
        f"Error: unable to perform an operation on node 'rabbit@localhost': {address}: user or password is wrong\n"
    )
    assert run("list_users") == (69, "", refused)
    status, out, err = run("list_users too many")
    assert status == 64 and f"--url http://{address}" in err
    assert "secret" not in out + err and "me:" not in out + err
    for url in (
        "http://me:se/cret@host",
        "http://me:1/secret@host",
        "http://me:secret@host:x",
        "amqp://me:se/cret@host",
    ):
        status, out, err = commanded(monkeypatch, capsys, "--url", url)("ping")
        assert (status, out) == (64, "") and "se" not in err.replace("percent-encoded in a password", "")
        assert "cret" not in commanded(monkeypatch, capsys, "--url", url)("list_users too many")[2]


def test_a_changed_user_keeps_the_rest_and_one_without_a_password_cannot_log_in(by_http: Warrenctl) -> None:
    assert by_http("add_user changed pw -q")[0] == 0
    assert by_http("set_user_tags changed management")[0] == 0
    assert by_http("authenticate_user changed pw")[0] == 0
    assert by_http("change_password changed other")[0] == 0
    assert "changed\t[management]" in by_http("list_users")[1]
    assert by_http("authenticate_user changed pw")[0] == 65
    assert by_http("authenticate_user changed other")[0] == 0
    assert by_http("clear_password changed")[0] == 0
    assert by_http("authenticate_user changed other")[0] == 65
    assert by_http("delete_user changed")[0] == 0


def test_users_who_may_not_are_told_so(
    ready: Ready, by_http: Warrenctl, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert by_http("add_user looker pw -q")[0] == 0
    run = commanded(monkeypatch, capsys, "--url", f"http://looker:pw@{ready['http'][0]}")
    assert "access refused: Not management user" in run("list_users")[2]
    assert by_http("set_user_tags looker management")[0] == 0
    assert run("list_users") == (69, "Listing users ...\n", "Error:\naccess refused: Not administrator user\n")
    assert by_http("delete_user looker")[0] == 0


def test_plugins_are_told_as_far_as_http_tells_of_them(by_http: Warrenctl) -> None:
    assert by_http("list -m -s '^rabbitmq_management$'") == (0, "rabbitmq_management\n", "")
    assert by_http("enable rabbitmq_management")[0] == 0
    assert by_http("enable rabbitmq_mqtt")[0] == 70
    assert by_http("is_enabled rabbitmq_mqtt")[0] == 69


# A server that answers what it is told to


class Scripted(http.server.BaseHTTPRequestHandler):
    """Of one that is made for each server, with `answers`; those that came are in `asked`."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[Answers] = {}
    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        size = int(self.headers.get("content-length", 0))
        self.rfile.read(size)
        request = f"{self.command} {self.path}"
        self.asked.append(request)
        status, document = self.answers.get(request, (404, {"error": "Object Not Found", "reason": "Not Found"}))
        octets = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)
        self.close_connection = True  # which the client is not told

    do_GET = do_PUT = do_DELETE = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        """To nobody."""


class Quiet(http.server.HTTPServer):
    """Says nothing of clients who leave."""

    def handle_error(self, request: object, client_address: object) -> None: ...


@contextmanager
def scripted(answers: Answers, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server that answers so, with TLS where there is a context, and what it was asked."""
    asked: list[str] = []
    overview: Answers = {"GET /api/overview?columns=node": (200, {"node": "rabbit@far"})}
    handler = type("Told", (Scripted,), {"answers": overview | answers, "asked": asked})
    server = Quiet(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' * (context is not None)}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


LINKS = [
    {
        "vhost": "/",
        "type": "exchange",
        "exchange": "x",
        "upstream_exchange": "y",
        "upstream": "origin",
        "id": "ae3c487a",
        "status": "error",
        "error": "refused",
        "uri": "amqp://far",
        "node": "rabbit@far",
        "timestamp": "2026-11-22 6:01:38",
    }
]


def test_links_of_federation_are_told_and_restarted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    restart = "DELETE /api/federation-links/vhost/%2F/ae3c487a/rabbit%40far/restart"
    answers: Answers = {
        "GET /api/federation-links": (200, LINKS),
        "GET /api/federation-links/state/down": (200, LINKS),
        restart: (204, None),
    }
    with scripted(answers) as (url, asked):
        run = commanded(monkeypatch, capsys, "--url", url)
        told = json.loads(run("federation_status --formatter json")[1])
        assert (told[0]["last_changed"], told[0]["queue"]) == ("2026-11-22 06:01:38", "")
        assert run("federation_status --only-down")[1].startswith(
            "Listing federation links which are down on node rabbit@far...\n"
            '[#{consumer_tag => <<>>,error => <<"refused">>,exchange => <<"x">>'
        )
        restarted = "Restarting federation link ae3c487a on node rabbit@far\n"
        assert run("restart_federation_link ae3c487a") == (0, restarted, "")
        assert restart in asked


def test_no_answer_in_time_is_75_and_no_http_is_69(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        run = commanded(monkeypatch, capsys, "--url", f"http://{address}", "--timeout", "0.1")
        told = "Error: operation list_users on node rabbit@localhost timed out. Timeout value used: 100\n"
        assert run("list_users") == (75, "", told)
    status, out, err = run("list_users")
    assert (status, out) == (69, "") and err.endswith(f"{address}: Connection refused\n")


def test_an_answer_of_something_else_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted({"GET /api/users": (200, [{"nobody": 1}])}) as (url, _):
        told = "Error:\nthe answer is not one of RabbitMQ's HTTP API: KeyError\n"
        assert commanded(monkeypatch, capsys, "--url", url)("list_users -q") == (69, "", told)
    with scripted({"GET /api/overview?columns=node": (200, "a page")}) as (url, _):
        status, out, err = commanded(monkeypatch, capsys, "--url", url)("list_users")
        assert (status, out) == (69, "") and err.endswith(": not the HTTP API of RabbitMQ\n")


def test_a_certificate_has_to_be_one_that_the_system_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with scripted({"GET /api/users": (200, [])}, context) as (url, _):
        run = commanded(monkeypatch, capsys, "--url", url)
        status, out, err = run("list_users -q")
        assert (status, out) == (69, "") and "certificate verify failed" in err.lower().replace("_", " ")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert run("list_users -q") == (0, "", "")


def test_a_connection_that_was_kept_for_too_long_is_made_anew() -> None:
    with scripted({"GET /api/users": (200, []), "GET /api/vhosts": (200, [1])}) as (url, _):
        api = API(url, 10.0)
        assert api.get("users") == []
        assert api.get("vhosts") == [1]
        api.close()


def test_who_is_refused_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"error": "not_authorized", "reason": "Not_Authorized"}
    with scripted({"GET /api/overview?columns=node": (401, wrong)}) as (url, _):
        status, _, err = commanded(monkeypatch, capsys, "--url", url)("await_startup")
        assert status == 69 and err.endswith(": user or password is wrong\n")


def test_a_url_names_the_door_and_who_knocks() -> None:
    api = API("https://a%40b:p%3Aw@[::1]/prefix/", None)
    assert (api.host, api.port) == ("::1", 15671)
    assert API("http://localhost", None).port == 15672
