"""Checks for whoever probes the node's health: each says that all is well, or is refused (69) and says why."""

from __future__ import annotations

import asyncio
import ssl
import time

from ..hosting.host import Listening
from ..net.certificates import authority_expiries, server_expiry
from . import status
from .answers import UNAVAILABLE, Answer, Refused
from .call import Call, Handler
from .diagnostics import listeners
from .question import whole

CONNECT_WAIT_S = 10.0
DAY_S = 86_400
LOOPBACK = {"::": "localhost", "0.0.0.0": "127.0.0.1"}  # by which all interfaces are reached


def check_alarms(call: Call) -> str:
    return status.check_alarms(call.node.name, call.node.alarms.on(), call.command == "check_local_alarms")


def check_running(call: Call) -> str:
    return status.check_running(call.node.name, listeners(call))


def check_port_listener(call: Call) -> str:
    return status.check_port(call.node.name, listeners(call), whole(call.arguments[0]))


def check_protocol_listener(call: Call) -> str:
    return status.check_protocol(call.node.name, listeners(call), call.arguments[0])


def check_virtual_hosts(call: Call) -> str:
    return status.check_vhosts(call.node.name)


async def check_port_connectivity(call: Call) -> Answer:
    found, described = call.host.listening(), listeners(call)
    reached = await asyncio.gather(*(connects(one) for one in found))
    return status.check_connected(call.node.name, described, reached)


async def connects(one: Listening) -> bool:
    try:
        async with asyncio.timeout(CONNECT_WAIT_S):
            _, writer = await asyncio.open_connection(LOOPBACK.get(one.host, one.host), one.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def check_certificate_expiration(call: Call) -> str:
    """Of servers and of the authorities that clients' certificates are checked by."""
    unit, within = call.text("unit", status.DEFAULT_UNIT), call.whole("within", status.DEFAULT_WITHIN)
    until_s = time.time() + within * status.days(unit) * DAY_S
    lines: list[str] = []
    for one in call.host.listening():
        lines += [
            f"{one.host}:{one.port} ({one.protocol}): {path} expires on {expiry}"
            for path, expiry in expiries(one)
            if ssl.cert_time_to_seconds(expiry) < until_s
        ]
    if lines:
        raise Refused(UNAVAILABLE, "\n".join([f"Certificates on node {call.node.name} are about to expire:", *lines]))
    return status.not_expiring(within, unit)


def expiries(one: Listening) -> list[tuple[str, str]]:
    """File and end of each certificate of a listener. Raises Refused (69) for a file that cannot be read."""
    if one.tls is None:
        return []
    options = one.tls.options
    try:
        found = [(options.certfile, server_expiry(one.tls.context, options.certfile))]
        if options.cacertfile:
            found += [(options.cacertfile, expiry) for expiry in authority_expiries(options.cacertfile)]
    except OSError as error:
        raise Refused(UNAVAILABLE, f"{options.certfile}: {error.strerror or error}") from None
    return found


COMMANDS: dict[str, Handler] = {
    "check_alarms": check_alarms,
    "check_local_alarms": check_alarms,
    "check_running": check_running,
    "check_port_connectivity": check_port_connectivity,
    "check_port_listener": check_port_listener,
    "check_protocol_listener": check_protocol_listener,
    "check_virtual_hosts": check_virtual_hosts,
    "check_certificate_expiration": check_certificate_expiration,
}
