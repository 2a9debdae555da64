"""Health checks of warrenctl, passing and failing."""

import datetime
import socket
from pathlib import Path

import pytest
import trustme

from tests.support.warrenctl import Controlled, Ready, Warrenctl, ports
from warren.broker.config import SSLOptions
from warren.broker.net.connection_limits import Pool
from warren.broker.net.tls import TLSOptions

pytestmark = pytest.mark.sockets

POOL = Pool("of a service", limit=10, source_limit=10)


def test_listeners_of_all_protocols_are_listed_and_pass_checks(ready: Ready, warrenctl: Warrenctl) -> None:
    amqp, http = (ready[name][0].rpartition(":")[2] for name in ("amqp", "http"))
    assert warrenctl("listeners -q")[1].splitlines()[:2] == [
        f"Interface: 127.0.0.1, port: {amqp}, protocol: amqp, purpose: AMQP 0-9-1",
        f"Interface: 127.0.0.1, port: {http}, protocol: http, purpose: HTTP API",
    ]
    found = f"A listener for port {http} is running on node rabbit@here.\n"
    assert warrenctl(f"check_port_listener {http} -q") == (0, found, "")
    for name, known in (("http", "http"), ("amqp091", "amqp"), ("AMQP", "amqp")):
        output = f"A listener for protocol {known} is running on node rabbit@here.\n"
        assert warrenctl(f"check_protocol_listener {name} -q") == (0, output, "")
    protocols = ", ".join(sorted(ready.keys() - {"control"}))
    missing = "No listener for protocol mqtt is active on node rabbit@here. Found listeners for the following protocols"
    assert warrenctl("check_protocol_listener mqtt -q") == (69, "", f"Error:\n{missing}: {protocols}\n")
    assert warrenctl("check_port_listener none")[0] == 65


def test_each_listener_is_connected_to(ready: Ready, warrenctl: Warrenctl) -> None:
    connected = f"Successfully connected to ports {', '.join(ports(ready))} on node rabbit@here.\n"
    assert warrenctl("check_port_connectivity -q") == (0, connected, "")
    assert warrenctl("check_port_connectivity -q --address 127.0.0.1") == (0, connected, "")
    assert warrenctl("check_port_connectivity -q --address 127.0.0.9")[0] == 69


def test_a_listener_that_nobody_can_connect_to_is_named(controlled: Controlled, in_process: Warrenctl) -> None:
    controlled.listening.listen()
    listener = controlled.listening.run(controlled.host.bind("http", "127.0.0.1", 0, POOL))
    (bound,) = listener.sockets
    port = bound.getsockname()[1]
    assert in_process("check_port_connectivity")[0] == 0
    bound.shutdown(socket.SHUT_RDWR)
    controlled.listening.call(listener.close)
    status, _, err = in_process("check_port_connectivity")
    failed = "Error:\nConnection to ports of the following listeners on node node failed: \n"
    assert (status, err) == (69, f"{failed}Interface: 127.0.0.1, port: {port}, protocol: http, purpose: HTTP API\n")


def test_a_node_without_listeners_fails_the_checks(controlled: Controlled, in_process: Warrenctl) -> None:
    assert in_process("check_port_connectivity")[0] == 69
    assert in_process("check_running")[0] == 69
    assert in_process("listeners -q")[1] == "(none)\n"


def now_of(controlled: Controlled) -> datetime.datetime:
    """The time by the clock of the node."""
    return datetime.datetime.fromtimestamp(controlled.host.node.clock.timestamp_s())


def test_expiring_certificates_fail_the_check(controlled: Controlled, in_process: Warrenctl, tmp_path: Path) -> None:
    authority, now = trustme.CA(), now_of(controlled)
    day = datetime.timedelta(days=1)
    leaf = authority.issue_cert("localhost", not_before=now - day, not_after=now + 10 * day)
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "leaf.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    options = TLSOptions(str(tmp_path / "leaf.pem"), cacertfile=str(tmp_path / "ca.pem"))
    port = controlled.listening.listen(options)
    passed = "No certificates are expiring within 1 week.\n"
    assert in_process("check_certificate_expiration --within 1 -q") == (0, passed, "")
    status, _, err = in_process("check_certificate_expiration --within 1 --unit months -q")
    assert status == 69
    assert f"127.0.0.1:{port} (amqp/ssl): {tmp_path}/leaf.pem expires on " in err and "ca.pem" not in err
    status, _, err = in_process("check_certificate_expiration --within 2000 --unit years -q")
    assert status == 69 and "leaf.pem" in err and "ca.pem" in err
    (tmp_path / "leaf.pem").unlink()
    assert in_process("check_certificate_expiration -q")[0] == 69
    assert in_process("check_certificate_expiration --unit centuries")[0] == 64
    assert in_process("check_certificate_expiration --within soon")[0] == 64


def test_certificates_of_services_are_too(controlled: Controlled, in_process: Warrenctl, tmp_path: Path) -> None:
    from warren.broker.app.listeners import tls

    now, days = now_of(controlled), datetime.timedelta(days=2)
    leaf = trustme.CA().issue_cert("localhost", not_before=now, not_after=now + days)
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "leaf.pem"))
    made = tls(controlled.host.config, controlled.host.report, SSLOptions(certfile=str(tmp_path / "leaf.pem")))
    listener = controlled.listening.run(controlled.host.bind("https", "127.0.0.1", 0, POOL, made))
    assert "(https)" in in_process("check_certificate_expiration")[2]
    controlled.listening.call(listener.close)


def test_alarms_fail_the_checks(controlled: Controlled, in_process: Warrenctl) -> None:
    assert in_process("check_alarms -q")[1] == "Node node reported no alarms, local or clusterwide\n"
    assert in_process("check_local_alarms -q")[1] == "Node node reported no local alarms\n"
    controlled.listening.call(controlled.host.node.alarms.set, "memory")
    assert in_process("check_alarms -q") == (69, "", "Memory alarm on node node\n")
    assert in_process("check_local_alarms -q") == (69, "", "Error:\nMemory alarm on node node\n")
    assert in_process("alarms -q") == (0, "Memory alarm on node node\n", "")


def test_exchange_types_are_listed_with_their_distribution(ready: Ready, warrenctl: Warrenctl) -> None:
    rows = warrenctl("list_exchange_types -s")[1].splitlines()
    assert "direct\t" in rows and "x-modulus-hash\twarrenmq" in [row.rpartition(" ")[0] or row for row in rows]
