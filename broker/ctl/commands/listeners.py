"""Commands for listeners, and health checks of them."""

from collections.abc import Iterable

from ..call import Call, Item
from ..command import CHECKS, DIAGNOSTICS, NODES, send
from ..errors import UNAVAILABLE, CommandError
from ..formats import Report

CONNECT_WAIT_S = 10.0
ALL_INTERFACES = {"[::]": "localhost", "0.0.0.0": "127.0.0.1"}
PURPOSES = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
    "https/prometheus": "Prometheus exporter API over TLS (HTTPS)",
}
SPELLINGS = {  # other spellings of protocols
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"),
    **dict.fromkeys(("amqps", "amqp/tls"), "amqp/ssl"),
    **dict.fromkeys(("http_api", "management"), "http"),
    **dict.fromkeys(("https_api", "http/ssl", "http/tls"), "https"),
    "prometheus": "http/prometheus",
}


def listeners(call: Call) -> list[Item]:
    return listeners_of(call.get("overview"))


def listeners_of(overview: Item) -> list[Item]:
    """Return the listeners in an overview. Raises CommandError (69) if the user may not see them."""
    if "listeners" not in overview:
        raise CommandError(UNAVAILABLE, "access refused: Not monitor user")
    return [
        {
            "node": one["node"],
            "interface": f"[{one['ip_address']}]" if ":" in one["ip_address"] else one["ip_address"],
            "port": one["port"],
            "protocol": one["protocol"],
            "purpose": PURPOSES.get(one["protocol"], one["protocol"]),
        }
        for one in overview["listeners"]
    ]


def lines_of(found: Iterable[Item]) -> list[str]:
    text = "Interface: {interface}, port: {port}, protocol: {protocol}, purpose: {purpose}"
    return [text.format_map(one) for one in found]


def list_listeners(call: Call) -> Report:
    found = listeners(call)
    return Report("\n".join(lines_of(found)) or "(none)", {"result": "ok", "node": call.node, "listeners": found})


def check_port_listener(call: Call) -> str:
    ports, port = list(dict.fromkeys(one["port"] for one in listeners(call))), call.positive_argument()
    if port not in ports:
        found = f"Found listeners that use the following ports: {', '.join(map(str, ports))}"
        text = f"No listener for port {port} is active on node {call.node}. {found}"
        raise CommandError(UNAVAILABLE, text, bare=True)
    return f"A listener for port {port} is running on node {call.node}."


def check_protocol_listener(call: Call) -> str:
    protocol = call.arguments[0]
    name = SPELLINGS.get(protocol.lower(), protocol.lower())
    protocols = sorted({one["protocol"] for one in listeners(call)})
    if name not in protocols:
        found = f"Found listeners for the following protocols: {', '.join(protocols)}"
        raise CommandError(UNAVAILABLE, f"No listener for protocol {protocol} is active on node {call.node}. {found}")
    return f"A listener for protocol {name} is running on node {call.node}."


def connectivity_banner(call: Call) -> str:
    address = call.text("address")
    using = f" using {address} for node IP address" if address else ""
    return f"Testing TCP connections to all active listeners on node {call.node}{using} ..."


def check_port_connectivity(call: Call) -> str:
    """Connect to each listener at --address, else at its own if the node is local, else at the host of the URL."""
    found = listeners(call)
    address = call.text("address", "" if call.api.is_local else call.api.host)
    if not found:
        raise CommandError(UNAVAILABLE, f"No listener on node {call.node} accepts connections")
    failed = [one for one in found if not connects(address or one["interface"], one["port"])]
    if failed:
        text = f"Connection to ports of the following listeners on node {call.node} failed: "
        raise CommandError(UNAVAILABLE, "\n".join([text, *lines_of(failed)]))
    ports = ", ".join(dict.fromkeys(str(one["port"]) for one in found))
    return f"Successfully connected to ports {ports} on node {call.node}."


def connects(interface: str, port: int) -> bool:
    """Return whether a listener of this machine, or of a given address, accepts a connection."""
    import socket  # other commands do not need it

    host = ALL_INTERFACES.get(interface, interface).strip("[]")
    try:
        socket.create_connection((host, port), CONNECT_WAIT_S).close()
    except OSError:
        return False
    return True


def check_running(call: Call) -> str:
    """Check that an AMQP listener is open. Raises CommandError (69) if there is none, as after `stop_app`."""
    if not any(one["protocol"].startswith("amqp") for one in listeners(call)):
        raise CommandError(UNAVAILABLE, f"RabbitMQ on node {call.node} is not running or has not fully booted yet")
    return f"RabbitMQ on node {call.node} is fully booted and running"


def is_running(call: Call) -> Report:
    text = check_running(call)
    return Report(text, {"message": text, "result": True})


def is_booting(call: Call) -> Report:
    """Deny it: a node that answers has started."""
    state = "is fully booted (check with is_running), stopped or has not started booting yet"
    text = f"RabbitMQ on node {call.node} {state}"
    return Report(text, {"message": text, "result": False})


# fmt: off
DIAGNOSTICS("listeners: Lists active listeners", "Asking node {node} to report its protocol listeners ...",
            list_listeners)
CHECKS("check_port_listener <port>: Fails if no listener uses the port",
       "Asking node {node} if there's an active listener on port {0} ...", check_port_listener)
CHECKS("check_protocol_listener <protocol>: Fails if no listener has the protocol",
       "Asking node {node} if there's an active listener for protocol {0} ...", check_protocol_listener)
CHECKS("check_port_connectivity [--address <address>]: Fails if a listener accepts no connections",
       connectivity_banner, check_port_connectivity)
CHECKS("check_running: Fails if AMQP clients cannot connect", "Checking if RabbitMQ is running on node {node} ...",
       check_running)
DIAGNOSTICS("is_running: Fails if AMQP clients cannot connect", "Asking node {node} for its status ...", is_running)
DIAGNOSTICS("is_booting: Says whether the node is starting", "Asking node {node} for its boot status ...", is_booting)
NODES.local("suspend_listeners: Suspends client connection listeners",
            "Will suspend client connection listeners on node "
            "{node}. The node will no longer accept client connections!",
            send("PUT", "warren/listeners", state="suspended"))
NODES.local("resume_listeners: Resumes client connection listeners",
            "Will resume client connection listeners on node {node}. The node will now accept client connections",
            send("PUT", "warren/listeners", state="running"))
