"""Commands over an HTTP API with prepared responses: of links, of other programs, and none."""

import json
import os
import pty
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from tests.support.fake_http_server import Answers, fake_http_server
from tests.support.polling import WITHIN_S
from tests.support.warrenctl import RunWith
from warren.broker.ctl import api_client
from warren.broker.ctl.api_client import API, basic_credentials, typed_password
from warren.broker.ctl.call import Call
from warren.broker.ctl.command_line import parse
from warren.broker.ctl.completion import names_of
from warren.broker.ctl.errors import ExitError
from warren.broker.ctl.main import Run

pytestmark = pytest.mark.sockets

LINK = {"vhost": "/", "type": "exchange", "exchange": "x", "upstream_exchange": "y", "upstream": "origin",
        "id": "ae3c487a", "status": "error", "error": "refused", "uri": "amqp://far", "node": "rabbit@far",
        "timestamp": "2026-11-22 6:01:38"}  # fmt: skip


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server whose only connection is served by this function, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with listening.accept()[0] as accepted:
                serve(accepted)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join(WITHIN_S)


def test_too_long_definitions_are_no_backup(monkeypatch: pytest.MonkeyPatch, run_with: RunWith, tmp_path: Path) -> None:
    monkeypatch.setattr(api_client, "ANSWER_LIMIT", 1 << 20)
    file = tmp_path / "definitions.json"
    with fake_http_server({"GET /api/definitions": (200, {"users": ["x" * (1 << 20)]})}) as (url, _):
        status, _, errors = run_with("--url", url)(f"export_definitions {file}")
    assert status == 69 and "longer than 1 MiB" in errors and not file.exists()


def test_federation_links_are_listed_and_restarted(run_with: RunWith) -> None:
    restart = "DELETE /api/federation-links/vhost/%2F/ae3c487a/rabbit%40far/restart"
    links = (200, [LINK])
    answers: Answers = {"GET /api/federation-links": links, "GET /api/federation-links/state/down": links}
    answers[restart] = (204, None)
    with fake_http_server(answers) as (url, asked):
        run = run_with("--url", url)
        output = json.loads(run("federation_status --formatter json")[1])
        assert (output[0]["last_changed"], output[0]["queue"]) == ("2026-11-22 06:01:38", "")
        assert run("federation_status --only-down")[1].startswith(
            "Listing federation links which are down on node rabbit@far...\n"
            '[#{consumer_tag => <<>>,error => <<"refused">>,exchange => <<"x">>'
        )
        restarted = "Restarting federation link ae3c487a on node rabbit@far\n"
        assert run("restart_federation_link ae3c487a") == (0, restarted, "")
        assert restart in asked


def test_no_answer_in_time_is_75_and_no_http_is_69(run_with: RunWith) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        run = run_with("--url", f"http://{address}", "--timeout", "0.1")
        output = "Error: operation list_users on the broker of --url timed out. Timeout value used: 100\n"
        assert run("list_users") == (75, "", output)
    status, out, err = run("list_users")
    assert (status, out) == (69, "")
    assert f"{address}: connection refused: nothing listens at this port; the log of the broker says" in err


def test_a_port_of_another_protocol_is_named_without_the_bytes_that_it_sends(run_with: RunWith) -> None:
    def answer(connected: socket.socket) -> None:
        connected.recv(1)
        connected.sendall(b"AMQP\0\0\x09\x01")
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(4096):
            pass

    with serving(answer) as address:
        status, out, err = run_with("--url", f"http://{address}")("list_users")
    assert (status, out) == (69, "")
    assert f"{address}: what listens there does not speak HTTP; the log of the broker says at which port" in err
    assert err.replace("\n", "").isprintable()


def test_a_response_of_another_program_is_reported_in_one_line(run_with: RunWith) -> None:
    with fake_http_server({"GET /api/users": (200, [{"nobody": 1}])}) as (url, _):
        output = "Error:\nthe answer is not one of RabbitMQ's HTTP API: KeyError\n"
        assert run_with("--url", url)("list_users -q") == (69, "", output)
    with fake_http_server({"GET /api/overview?columns=node": (200, "a page")}) as (url, _):
        status, out, err = run_with("--url", url)("list_users")
        assert (status, out) == (69, "") and err.endswith(": not the HTTP API of RabbitMQ\n")


def test_a_certificate_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_with: RunWith) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with fake_http_server({"GET /api/users": (200, [])}, context) as (url, _):
        run = run_with("--url", url)
        status, out, err = run("list_users -q")
        assert (status, out) == (69, "") and "certificate verify failed" in err.lower().replace("_", " ")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert run("list_users -q") == (0, "", "")


def test_a_connection_that_was_kept_for_too_long_is_made_anew() -> None:
    with fake_http_server({"GET /api/users": (200, []), "GET /api/vhosts": (200, [1])}) as (url, _):
        api = API(url, 10.0)
        assert api.get("users") == []
        assert api.get("vhosts") == [1]
        api.close()


def test_a_refused_request_is_not_retried(run_with: RunWith) -> None:
    wrong = {"error": "not_authorized", "reason": "Not_Authorized"}
    with fake_http_server({"GET /api/overview?columns=node": (401, wrong)}) as (url, _):
        status, _, err = run_with("--url", url)("await_startup")
        assert status == 69 and err.endswith("or WARRENCTL_PASSWORD the password\n")


def test_a_url_contains_address_user_and_password() -> None:
    api = API("https://a%40b:p%3Aw@[::1]/prefix/", None)
    assert (api.host, api.port) == ("::1", 15671)
    assert API("http://localhost", None).port == 15672


@pytest.mark.sockets
def test_a_command_ends_after_its_timeout_also_where_bytes_keep_coming(run_with: RunWith) -> None:
    """Each read takes less than the timeout, but all together take longer."""
    ended = threading.Event()

    def drip(accepted: socket.socket) -> None:
        accepted.recv(65536)
        accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
        while not ended.wait(0.05):
            with suppress(OSError):  # the command has ended
                accepted.sendall(b" ")

    with serving(drip) as address:
        status, _, err = run_with("--url", f"http://{address}")("list_users --timeout 0.5")
        ended.set()
    assert status == 75 and "timed out. Timeout value used: 500" in err


def test_a_password_may_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("p@ss w:rd\nnot this\n")
    assert API("http://alice@h", None, str(secret))._authorization == basic_credentials("alice", "p@ss w:rd")
    assert API("http://h", None, str(secret))._authorization == basic_credentials("guest", "p@ss w:rd")
    assert API("http://alice:in-url@h", None, str(secret))._authorization == basic_credentials("alice", "in-url")
    monkeypatch.setenv("WARRENCTL_PASSWORD", "from-environment")
    assert API("http://alice@h", None)._authorization == basic_credentials("alice", "from-environment")
    with pytest.raises(ExitError, match=r"--password-file: .*: there is no such file"):
        API("http://alice@h", None, str(tmp_path / "nowhere"))
    secret.write_text("\nsecond line\n")
    with pytest.raises(ExitError, match=r"--password-file: .*: its first line is empty"):
        API("http://alice@h", None, str(secret))


@pytest.mark.parametrize("set_empty", [True, False])
@pytest.mark.parametrize("scheme", ["http", "amqp"])
def test_no_login_is_tried_without_a_password(
    run_with: RunWith, monkeypatch: pytest.MonkeyPatch, scheme: str, set_empty: bool
) -> None:
    if set_empty:
        monkeypatch.setenv("WARRENCTL_PASSWORD", "")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        status, out, err = run_with("--url", f"{scheme}://alice@127.0.0.1:{listening.getsockname()[1]}")("ping")
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert (status, out) == (64, "") and "alice" not in err
    assert err.startswith("warrenctl: --url: the password of its user is missing: give it by --password-file or WARR")


@pytest.mark.parametrize(("typed", "status"), [("from-terminal", 69), ("", 64), (None, 64)])
@pytest.mark.parametrize("scheme", ["http", "amqp"])
def test_a_password_is_asked_for_once_on_a_terminal(
    run_with: RunWith, monkeypatch: pytest.MonkeyPatch, scheme: str, typed: str | None, status: int
) -> None:
    prompts: list[str] = []

    def getpass(prompt: str) -> str:
        prompts.append(prompt)
        if typed is None:
            raise EOFError
        return typed

    monkeypatch.setattr("getpass.getpass", getpass)
    ours, theirs = pty.openpty()
    typed_password.cache_clear()
    with open(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        run = run_with("--url", f"{scheme}://alice@127.0.0.1:1")
        assert [run("ping")[0] for _ in range(2)] == [status] * 2
        assert names_of("queues", "", {"url": "http://bob@127.0.0.1:1"}) == [], "a completion does not ask"
    os.close(ours)
    assert prompts == ["Password for user alice at 127.0.0.1:1: "]
    typed_password.cache_clear()


def test_timeout_infinity_is_no_timeout_over_http_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []

    def connect(call: Call, url: str, timeout_s: float | None, password_file: str) -> None:
        asked.append(timeout_s)

    monkeypatch.setattr("warren.broker.ctl.node.connect_to_url", connect)
    for line in ("list_users --timeout infinity", "list_users", "list_queues", "list_users --timeout 5"):
        Run(parse([*line.split(), "--url", "http://h"])).connect()
    assert asked == [None, 60.0, 60.0, 5.0]


def test_all_limits_of_a_virtual_host_are_one_request(run_with: RunWith) -> None:
    put = "PUT /api/parameters/vhost-limits/%2F/limits"
    with fake_http_server({"GET /api/vhosts/%2F": (200, {"name": "/"}), put: (204, None)}) as (url, asked):
        limits = '\'{"max-queues":5,"max-connections":6}\''
        assert run_with("--url", url)(f"set_vhost_limits {limits}")[0] == 0
        assert [request for request in asked if not request.startswith("GET")] == [put]
