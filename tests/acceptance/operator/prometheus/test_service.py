"""The service in a broker process: its addresses, its certificates, its answers on the port of the API, its end."""

import base64
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from tests.support.checkout import ROOT, installed
from tests.support.logging_broker import Broker
from tests.support.scraping import Samples

pytestmark = pytest.mark.sockets

PATIENCE_S = 60
PROTOCOL = "http/prometheus"


@contextmanager
def started(folder: Path, *lines: str, memory: bool = True) -> Iterator[Broker]:
    """With these lines of configuration; what they do not say is any port of loopback."""
    (folder / "broker.conf").write_text("\n".join(lines), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(folder)), str(ROOT)])}
    line = [sys.executable, "-m", "warren.broker.cli", "serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    line += ["--memory"] if memory else ["--data", str(folder / "data")]
    line += ["--config", str(folder / "broker.conf")]
    with subprocess.Popen(line, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Broker(process)
        finally:
            process.kill()


def scraped(url: str, user: str | None = None, context: ssl.SSLContext | None = None) -> Samples:
    headers = {"Authorization": "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()} if user else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60, context=context) as answer:
        return Samples(answer.read().decode())


def test_metrics_have_an_address_of_their_own_and_are_told_on_that_of_the_api_to_who_monitors(tmp_path: Path) -> None:
    with started(tmp_path, "prometheus.tcp.port = 0") as broker:
        (address,) = broker.ready[PROTOCOL]
        (api,) = broker.ready["http"]
        assert scraped(f"http://{address}/metrics").value("rabbitmq_queues") == 0
        assert scraped(f"http://{api}/metrics", "guest").value("rabbitmq_queues") == 0
        assert scraped(f"http://{api}/metrics/per-object", "guest").labels("rabbitmq_identity_info")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            scraped(f"http://{api}/metrics")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scraped(f"http://{address}/api/overview", "guest")
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(timeout=PATIENCE_S) == 0


def test_a_broker_that_nobody_scrapes_imports_nothing_of_it(tmp_path: Path) -> None:
    names = (
        "import sys",
        "from warren.broker.cli import main",
        "import warren.plugins.prometheus.service, warren.plugins.management.service",
        "print([name for name in ('prometheus_client', 'starlette', 'uvicorn', 'msgspec') if name in sys.modules])",
    )
    told = subprocess.run(
        [sys.executable, "-c", "\n".join(names)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"


def test_a_port_that_is_taken_ends_the_start_if_it_was_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, f"prometheus.tcp.port = {port}") as broker:
            assert broker.process.wait(timeout=PATIENCE_S) == 69
            (said,) = broker.said("cannot_start")
            assert said["service"] == "prometheus" and said["reason"].startswith(f"127.0.0.1:{port}: ")


def test_they_have_tls_where_there_are_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = tmp_path / "leaf.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
    lines = ("prometheus.ssl.port = 0", "prometheus.ssl.ip = 127.0.0.1", f"prometheus.ssl.certfile = {leaf}")
    with started(tmp_path, "prometheus.tcp.port = 0", *lines) as broker:
        port = broker.ready["https/prometheus"][0].rpartition(":")[2]
        context = ssl.create_default_context()
        authority.configure_trust(context)
        url = f"https://localhost:{port}/metrics/detailed?family=queue_metrics"
        assert scraped(url, context=context).labels("rabbitmq_build_info")
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            scraped(url, context=ssl.create_default_context())


def test_a_journal_and_the_loop_are_timed(tmp_path: Path) -> None:
    with started(tmp_path, "prometheus.tcp.port = 0", memory=False) as broker:
        (address,) = broker.ready[PROTOCOL]
        until_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < until_s:
            samples = scraped(f"http://{address}/metrics")
            looked, synced = (
                samples.value(f"warren_{name}_seconds_count") for name in ("event_loop_lag", "journal_sync")
            )
            if looked and synced:
                break
            time.sleep(0.05)
        else:
            pytest.fail("nothing was timed")
        assert samples.value("rabbitmq_io_sync_ops_total") == synced
