"""The service in a broker process: listeners, shutdown, TLS, and imports only on demand."""

import json
import re
import socket
import ssl
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.http import HTTPClient, basic

pytestmark = pytest.mark.sockets


def broker_with_api(folder: Path, *lines: str, fork: bool = True) -> BrokerProcess:
    """A broker with the HTTP API and further lines of configuration."""
    broker = BrokerProcess(folder, "--http", ANY_PORT, memory=True, fork=fork)
    broker.configure(*lines)
    return broker


def test_the_api_answers_at_the_configured_address_and_ends_with_the_broker(tmp_path: Path) -> None:
    with broker_with_api(tmp_path) as broker:
        assert broker.http().get("/whoami").json["name"] == "guest"
        protocols = [one["protocol"] for one in broker.http().get("/overview").json["listeners"]]
        assert {"amqp", "http"} <= set(protocols)
        with closing(broker.http().connect()) as idle:
            idle.request("GET", "/api/version")
            assert json.loads(idle.getresponse().read())
            broker.stop()
            assert "graceful shutdown exceeded" not in broker.output.read_text(), "an idle connection delays it"
            assert idle.sock is not None and idle.sock.recv(4096) == b""


def test_numbers_of_very_many_digits_are_refused(tmp_path: Path) -> None:
    digits = int("7" * 700)
    with broker_with_api(tmp_path) as broker:
        api = broker.http()
        for method, path, body in (
            ("PUT", "/global-parameters/p", {"value": [digits]}),
            ("PUT", "/parameters/federation-upstream/%2F/up", {"value": {"uri": "amqp://", "expires": digits}}),
            ("PUT", "/policies/%2F/p", {"pattern": "", "definition": {"max-length": digits}}),
            ("PUT", "/queues/%2F/q", {"arguments": {"x": digits}}),
            ("POST", "/exchanges/%2F/amq.default/publish", {"payload": "", "properties": {"headers": {"x": digits}}}),
            ("POST", "/definitions", {"global_parameters": [{"name": "p", "value": digits}]}),
            ("POST", "/warren/check-definitions", {"global_parameters": [{"name": "p", "value": digits}]}),
        ):
            answer = api.request(method, path, body)
            assert answer.status == 400, (path, answer)
        assert api.get("/definitions").status == 200


def test_a_response_without_content_has_no_length_and_the_connection_stays_open(tmp_path: Path) -> None:
    with broker_with_api(tmp_path) as broker, closing(broker.http().connect()) as client:
        for _ in range(2):
            client.request("POST", "/api/definitions", b"{}", {"Authorization": basic("guest")})
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (204, b"")
            assert answer.getheader("content-length") is None and answer.getheader("transfer-encoding") is None


def test_a_broker_without_requests_imports_no_http_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # lists each import
    for requests in (0, 1):
        with broker_with_api(tmp_path / str(requests), fork=False) as broker:
            for _ in range(requests):
                assert broker.http().get("/whoami").status == 200
            broker.stop()
            imports = set(re.findall(r"^import time:.*\| +(\w+)$", broker.output.read_text(), re.M))
        assert imports & {"structlog", "starlette", "uvicorn"} == {"structlog", *["starlette", "uvicorn"] * requests}


def test_a_configured_port_that_is_taken_fails_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = BrokerProcess(tmp_path, "--http", f"127.0.0.1:{port}", memory=True)
        broker.launch()
        assert broker.wait() == 69
        (said,) = broker.events("cannot_start")
        reason = f"cannot listen at 127.0.0.1:{port}: another program listens there"
        assert said["service"] == "management" and said["reason"].startswith(reason)


def test_bytes_that_are_not_http_are_refused_without_harm(tmp_path: Path) -> None:
    with broker_with_api(tmp_path) as broker:
        (address,) = broker.addresses["http"]
        host, _, port = address.rpartition(":")
        long = b"GET /" + b"a" * 100_000
        for body in (b"AMQP\0\0\t\1", b"\x16\x03\x01" * 100, long, b"GET /api/%00 HTTP/1.1\r\n\r\n"):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(body + b"\r\n\r\n")
                assert re.match(rb"HTTP/1.1 (4\d\d|200)", stranger.recv(4096))
        assert broker.http().get("/whoami").json["name"] == "guest"


def test_a_connection_without_a_request_is_closed(tmp_path: Path) -> None:
    with broker_with_api(tmp_path, "management.tcp.request_timeout = 200") as broker:
        host, _, port = broker.addresses["http"][0].rpartition(":")
        for begun in (b"", b"GET /api/whoami HTT", b"GET /api/version HTTP/1.1\r\nhost: x\r\n"):
            with socket.create_connection((host, int(port)), timeout=60) as slow:
                slow.sendall(begun)
                assert slow.recv(4096) == b""


def test_a_connection_ends_after_as_many_requests_as_it_may_have(tmp_path: Path) -> None:
    keepalive = "management.tcp.max_keepalive = 2"
    with broker_with_api(tmp_path, keepalive) as broker, closing(broker.http().connect()) as client:
        for last in (False, True):
            client.request("GET", "/api/version")
            answer = client.getresponse()
            assert answer.read() and answer.will_close is last


def test_the_api_has_tls_where_there_are_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = tmp_path / "leaf.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
    lines = ("management.ssl.port = 0", "management.ssl.ip = 127.0.0.1", f"management.ssl.certfile = {leaf}")
    with broker_with_api(tmp_path, *lines) as broker:
        port = broker.addresses["https"][0].rpartition(":")[2]

        def whoami(trust: ssl.SSLContext) -> str:
            return str(HTTPClient(f"localhost:{port}", tls=trust).get("/whoami").json["name"])

        context = ssl.create_default_context()
        authority.configure_trust(context)
        assert whoami(context) == "guest"
        other = trustme.CA()
        other.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
        with pytest.raises(ssl.SSLCertVerificationError, match="CERTIFICATE_VERIFY_FAILED"):
            whoami(context)
        renewed = ssl.create_default_context()
        other.configure_trust(renewed)
        assert whoami(renewed) == "guest"
