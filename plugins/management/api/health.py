"""Routes of health checks, with RabbitMQ's older ones."""

import ssl

from warren.broker.net.certificates import authority_expiries, server_expiry
from warren.broker.plugin import Properties
from warren.broker.plugin_host.host import Listening

from ...http.auth import ANY, MONITOR, NONE, VHOST
from ...http.responses import Response, bad, not_now
from ..framework.pagination import Item
from ..framework.request import Request
from ..framework.router import route

CHECKS = "/health/checks"
LEADERS = "quorum-queues-without-elected-leaders"
CANNOT_FAIL = (  # on one node without quorums
    *("virtual-hosts", "metadata-store/initialized", "metadata-store/initialized/with-data"),
    *("reached-target-cluster-size", f"{LEADERS}/all-vhosts", f"{LEADERS}/all-vhosts/pattern/{{pattern}}"),
    *(f"{LEADERS}/vhost/{{vhost}}", f"{LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}"),
)

SPELLINGS = {
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"),
    **dict.fromkeys(("amqps", "amqp/tls"), "amqp/ssl"),
    **dict.fromkeys(("http1.1", "http_api", "management", "ui", "cli"), "http"),
    **dict.fromkeys(("https_api", "http/tls", "http/ssl"), "https"),
    **dict.fromkeys(("prometheus", "http_prometheus"), "http/prometheus"),
}
RESOURCES = {"memory": "memory", "disk": "disk space", "store": "store"}  # RabbitMQ's name by ours
DIGITS_LIMIT = 6  # of a port or a number of days, months or years
DAY_S = 86_400
UNITS = {"days": 1, "weeks": 7, "months": 28, "years": 365}
NO_CACHE = {"cache-control": "no-cache, no-store, max-age=0, must-revalidate", "pragma": "no-cache"}
ALIVE = "aliveness-test"  # a queue with RabbitMQ's name


Health = dict[str, object]
"""The status `ok` or `failed`, with the reason, and the fields of a check."""


def ok(**fields: object) -> Response[Health]:
    return Response(200, {"status": "ok", **fields})


def failed(reason: str, **fields: object) -> Response[Health]:
    return Response(503, {"status": "failed", "reason": reason, **fields})


@route("GET", ANY, *(f"{CHECKS}/{check}" for check in CANNOT_FAIL))
def always_ok(request: Request) -> Response[Health]:
    """Return ok: this check cannot fail on one node without quorums."""
    return ok()


@route("GET", ANY, f"{CHECKS}/node-is-quorum-critical", f"{CHECKS}/node-is-mirror-sync-critical")
def quorum_critical(request: Request) -> Response[Health]:
    """Check that stopping the node loses no quorum."""
    return ok(reason="single node cluster")


@route("GET", ANY, f"{CHECKS}/alarms")
def check_alarms(request: Request) -> Response[Health]:
    """Check that no node is low on memory or disk."""
    return alarms(request, "There are alarms in effect in the cluster")


@route("GET", ANY, f"{CHECKS}/local-alarms")
def check_local_alarms(request: Request) -> Response[Health]:
    """Check that this node is not low on memory or disk."""
    return alarms(request, "There are alarms in effect on the node")


def alarms(request: Request, reason: str) -> Response[Health]:
    on = [{"node": request.node.name, "resource": RESOURCES[name]} for name in request.node.alarms.on()]
    return failed(reason, alarms=on) if on else ok()


@route("GET", MONITOR, f"{CHECKS}/stored-definitions")
def check_restored(request: Request) -> Response[Health]:
    """Check that all stored definitions were restored at the start, or declared again; RabbitMQ has no such check."""
    lines = request.node.not_restored()
    return failed("Stored definitions could not be restored at the start", definitions=lines) if lines else ok()


@route("GET", ANY, f"{CHECKS}/port-listener/{{port}}")
def check_port(request: Request) -> Response[Health]:
    """Check that a port has a listener."""
    text = request.path["port"]
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= DIGITS_LIMIT):
        raise bad("Invalid port")
    port, ports = int(text), sorted({one.port for one in request.host.listening()})
    return ok(port=port) if port in ports else failed("No active listener", missing=port, ports=ports)


@route("GET", ANY, f"{CHECKS}/protocol-listener/{{protocol}}")
def check_protocols(request: Request) -> Response[Health]:
    """Check that each of the protocols, separated by commas, has a listener."""
    asked = dict.fromkeys(name.strip().lower() for name in request.path["protocol"].split(","))
    wanted = [SPELLINGS.get(name, name) for name in asked]
    active = sorted({one.protocol for one in request.host.listening()})
    absent = [name for name in wanted if name not in active]
    if len(wanted) == 1:
        (name,) = wanted
        return failed("No active listener", missing=name, protocols=active) if absent else ok(protocol=name)
    return failed("No active listener", missing=absent, protocols=active) if absent else ok(protocols=active)


@route("GET", ANY, f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}")
def check_certificates(request: Request) -> Response[Health]:
    """Check that no certificate expires within a number of days, weeks, months or years."""
    unit, within = request.path["unit"].lower(), request.path["within"]
    if not (within.isascii() and within.removeprefix("-").isdecimal() and len(within) <= DIGITS_LIMIT):
        raise bad("Invalid expiration value.")
    if unit not in UNITS:
        raise bad("Time unit not recognised. Supported units: days, weeks, months, years.")
    until_s = request.node.clock.timestamp_s() + int(within) * UNITS[unit] * DAY_S
    expired = [fields for one in request.host.listening() if (fields := expiring(request, one, until_s))]
    return failed("Certificates expiring", expired=expired) if expired else ok()


def expiring(request: Request, listening: Listening, until_s: float) -> Item:
    """Return the fields of a listener with certificates that expire before `until_s`; {} for any other."""
    if listening.tls is None:
        return {}
    options = listening.tls.options
    try:
        own = [server_expiry(listening.tls.context, options.certfile)]
        authorities = authority_expiries(options.cacertfile) if options.cacertfile else []
    except OSError as error:
        raise not_now(f"{options.certfile}: {error.strerror or error}") from None
    if all(ssl.cert_time_to_seconds(one) >= until_s for one in own + authorities):
        return {}
    return {
        "node": request.node.name,
        "protocol": listening.protocol,
        "interface": listening.host,
        "port": listening.port,
        "certfile": options.certfile,
        "cacertfile": options.cacertfile,
        "certfile_expires_on": own,
        "cacertfile_expires_on": authorities,
    }


# For load balancers, without a password.


@route("GET", NONE, f"{CHECKS}/is-in-service")
def check_in_service(request: Request) -> Response[Health]:
    """Check that the node has started and is not in maintenance."""
    return without_cache(ok())


@route("GET", NONE, f"{CHECKS}/below-node-connection-limit")
def check_connection_limit(request: Request) -> Response[Health]:
    """Check that the connection limit is not reached."""
    return without_cache(connection_limit(request) or ok())


@route("GET", NONE, f"{CHECKS}/ready-to-serve-clients")
def check_ready(request: Request) -> Response[Health]:
    """Check that clients can connect."""
    if not any(one.protocol.startswith("amqp") for one in request.host.listening()):
        return without_cache(failed("no active listeners for AMQP/AMQPS"))
    return without_cache(connection_limit(request) or ok())


def connection_limit(request: Request) -> Response[Health] | None:
    """Return the failure if the limit is reached, or None."""
    limit, connections = request.host.config.connection_max, len(request.host.connections())
    if limit is None or connections < limit:
        return None
    return failed("node connection limit is reached", connections=connections)


def without_cache(answer: Response[Health]) -> Response[Health]:
    return Response(answer.status, answer.body, NO_CACHE)


# RabbitMQ's older checks.


@route("GET", ANY, "/healthchecks/node", "/healthchecks/node/{node}")
def check_node(request: Request) -> Response[Health]:
    """Check that the node has no resource alarm."""
    request.check_node()
    on = [RESOURCES[name] for name in request.node.alarms.on()]
    return Response(200, {"status": "failed", "reason": f"resource alarm(s) in effect:{on}"}) if on else ok()


@route("GET", VHOST, "/aliveness-test/{vhost}", changes=True)
def aliveness(request: Request) -> Response[Health]:
    """Check that a message can be published and got."""
    channel = request.channel()
    channel.declare_queue(ALIVE, check_new=channel.check_alarms)
    outcome = channel.publish("", ALIVE, Properties(), b"test_message")
    taken = channel.get(ALIVE, 1, no_ack=True)
    return ok() if outcome.routed and taken else failed("the message did not come back")
