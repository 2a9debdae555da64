"""The service in a broker process: listeners, certificates, metrics on the port of the API, shutdown."""

import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.checkout import ROOT
from tests.support.http import HTTPClient
from tests.support.metrics import Samples
from tests.support.polling import until

pytestmark = pytest.mark.sockets

PROTOCOL = "http/prometheus"


def broker_with_metrics(folder: Path, *lines: str, memory: bool = True) -> BrokerProcess:
    """A broker with the HTTP API and further lines of configuration."""
    broker = BrokerProcess(folder, "--http", ANY_PORT, memory=memory)
    broker.configure(*lines)
    return broker


def scrape(address: str, path: str = "/metrics", user: str | None = None, tls: ssl.SSLContext | None = None) -> Samples:
    response = HTTPClient(address, "", tls).get(path, user=user)
    assert response.status == 200, response
    return Samples(response.text)


def test_metrics_have_their_own_listener_and_are_on_that_of_the_api_for_monitoring(tmp_path: Path) -> None:
    with broker_with_metrics(tmp_path, "prometheus.tcp.port = 0") as broker:
        (address,) = broker.addresses[PROTOCOL]
        (api,) = broker.addresses["http"]
        assert scrape(address).value("rabbitmq_queues") == 0
        assert scrape(api, user="guest").value("rabbitmq_queues") == 0
        assert scrape(api, "/metrics/per-object", "guest").labels("rabbitmq_identity_info")
        assert broker.http("").get("/metrics", user=None).status == 401
        assert HTTPClient(address).get("/overview").status == 404
        broker.stop()


def test_a_broker_without_scrapes_imports_no_library(tmp_path: Path) -> None:
    names = (
        "import sys",
        "from warren.broker.cli import main",
        "import warren.plugins.prometheus.service, warren.plugins.management.service",
        "print([name for name in ('prometheus_client', 'starlette', 'uvicorn') if name in sys.modules])",
    )
    command = [sys.executable, "-c", "\n".join(names)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_configured_port_that_is_taken_fails_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = broker_with_metrics(tmp_path, f"prometheus.tcp.port = {port}")
        broker.launch()
        assert broker.wait() == 69
        (said,) = broker.events("cannot_start")
        assert said["service"] == "prometheus" and said["reason"].startswith(f"cannot listen at 127.0.0.1:{port}: ")


def test_they_have_tls_where_there_are_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = tmp_path / "leaf.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(leaf))
    lines = ("prometheus.ssl.port = 0", "prometheus.ssl.ip = 127.0.0.1", f"prometheus.ssl.certfile = {leaf}")
    with broker_with_metrics(tmp_path, "prometheus.tcp.port = 0", *lines) as broker:
        port = broker.addresses["https/prometheus"][0].rpartition(":")[2]
        context = ssl.create_default_context()
        authority.configure_trust(context)
        address, path = f"localhost:{port}", "/metrics/detailed?family=queue_metrics"
        assert scrape(address, path, tls=context).labels("rabbitmq_build_info")
        with pytest.raises(ssl.SSLCertVerificationError, match="CERTIFICATE_VERIFY_FAILED"):
            scrape(address, path, tls=ssl.create_default_context())


def test_a_journal_and_the_loop_are_timed(tmp_path: Path) -> None:
    with broker_with_metrics(tmp_path, "prometheus.tcp.port = 0", memory=False) as broker:
        (address,) = broker.addresses[PROTOCOL]

        def both_timed() -> Samples | None:
            samples = scrape(address)
            counts = [samples.value(f"warren_{name}_seconds_count") for name in ("event_loop_lag", "journal_sync")]
            return samples if all(counts) else None

        samples = until(both_timed, "the loop and the journal are timed", every_s=0.05)
        assert samples.value("rabbitmq_io_sync_ops_total") == samples.value("warren_journal_sync_seconds_count")
