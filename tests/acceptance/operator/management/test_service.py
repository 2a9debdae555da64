"""The service in a broker process: its addresses, its end, and what it costs who does not ask."""

import base64
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.support.checkout import ROOT, installed
from tests.support.logging_broker import Broker

pytestmark = pytest.mark.sockets

BASIC = "Basic " + base64.b64encode(b"guest:guest").decode()


@contextmanager
def started(folder: Path, *options: str) -> Iterator[Broker]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(folder)), str(ROOT)])}
    line = [sys.executable, "-m", "warren.broker.cli", "serve", "--memory", "--amqp", "127.0.0.1:0", *options]
    with subprocess.Popen(line, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Broker(process)
        finally:
            process.kill()


def asked(url: str, context: Any = None) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": BASIC})
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.load(answer)


def test_the_api_answers_where_it_was_told_to_and_ends_with_the_broker(tmp_path: Path) -> None:
    with started(tmp_path, "--http", "127.0.0.1:0") as broker:
        (address,) = broker.ready["http"]
        assert asked(f"http://{address}/api/whoami")["name"] == "guest"
        protocols = [one["protocol"] for one in asked(f"http://{address}/api/overview")["listeners"]]
        assert {"amqp", "http"} <= set(protocols)
        with closing(http.client.HTTPConnection(address, timeout=60)) as idle:
            idle.request("GET", "/api/version")
            assert json.loads(idle.getresponse().read())
            broker.process.send_signal(signal.SIGTERM)
            assert broker.process.wait(timeout=60) == 0
            assert "timeout graceful shutdown exceeded" not in broker.rest()  # an idle connection held up nothing
            assert idle.sock is not None and idle.sock.recv(4096) == b""


def test_a_broker_that_nobody_asks_imports_nothing_of_it_and_ends_too(tmp_path: Path) -> None:
    with started(tmp_path, "--http", "127.0.0.1:0") as broker:
        maps = Path(f"/proc/{broker.process.pid}/maps").read_text(encoding="utf-8")
        assert "msgspec" not in maps
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(timeout=60) == 0


def test_a_port_that_is_taken_ends_the_start_if_it_was_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, "--http", f"127.0.0.1:{port}") as broker:
            assert broker.process.wait(timeout=60) == 69
        (said,) = [line for line in broker.log if line["event"] == "cannot_start"]
        assert said["service"] == "management" and said["reason"].startswith(
            f"127.0.0.1:{port}: Address already in use"
        )


def test_what_is_no_http_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    with started(tmp_path, "--http", "127.0.0.1:0") as broker:
        (address,) = broker.ready["http"]
        host, _, port = address.rpartition(":")
        for octets in (
            b"AMQP\0\0\t\1",
            b"\x16\x03\x01" * 100,
            b"GET /" + b"a" * 100_000,
            b"GET /api/%00 HTTP/1.1\r\n\r\n",
        ):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(octets + b"\r\n\r\n")
                assert re.match(rb"HTTP/1.1 (4\d\d|200)", stranger.recv(4096))
        assert asked(f"http://{address}/api/whoami")["name"] == "guest"


def configured(folder: Path, *lines: str) -> tuple[str, str]:
    file = folder / "broker.conf"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return "--config", str(file)


def test_who_never_comes_to_a_request_is_not_waited_for(tmp_path: Path) -> None:
    options = configured(tmp_path, "management.tcp.request_timeout = 200")
    with started(tmp_path, "--http", "127.0.0.1:0", *options) as broker:
        host, _, port = broker.ready["http"][0].rpartition(":")
        for begun in (b"", b"GET /api/whoami HTT", b"GET /api/version HTTP/1.1\r\nhost: x\r\n"):
            with socket.create_connection((host, int(port)), timeout=60) as slow:
                slow.sendall(begun)
                assert slow.recv(4096) == b""


def test_a_connection_ends_after_as_many_requests_as_it_may_have(tmp_path: Path) -> None:
    options = configured(tmp_path, "management.tcp.max_keepalive = 2")
    with (
        started(tmp_path, "--http", "127.0.0.1:0", *options) as broker,
        closing(http.client.HTTPConnection(broker.ready["http"][0], timeout=60)) as client,
    ):
        for last in (False, True):
            client.request("GET", "/api/version")
            answer = client.getresponse()
            assert answer.read() and answer.will_close is last


def test_the_api_has_tls_where_there_are_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = tmp_path / "leaf.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
    lines = ("management.ssl.port = 0", "management.ssl.ip = 127.0.0.1", f"management.ssl.certfile = {leaf}")
    (tmp_path / "broker.conf").write_text("\n".join(lines), encoding="utf-8")
    with started(tmp_path, "--http", "127.0.0.1:0", "--config", str(tmp_path / "broker.conf")) as broker:
        port = broker.ready["https"][0].rpartition(":")[2]
        context = ssl.create_default_context()
        authority.configure_trust(context)
        assert asked(f"https://localhost:{port}/api/whoami", context)["name"] == "guest"
        other = trustme.CA()
        other.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            asked(f"https://localhost:{port}/api/whoami", context)
        renewed = ssl.create_default_context()
        other.configure_trust(renewed)
        assert asked(f"https://localhost:{port}/api/whoami", renewed)["name"] == "guest"
