"""Objects of every kind in a broker, so that each route of the HTTP API has something to answer with.

All of them are called `it` and are in the virtual host `/`.
"""

import dataclasses
import json
from pathlib import Path
from urllib.parse import quote

from warren.broker.core.access.passwords import SHA256, hash_password
from warren.broker.plugin_host.host import Listening
from warren.plugins.http.auth import LOCAL
from warren.plugins.management.api import routes
from warren.plugins.management.framework.router import Route

from .fake_federation import FakeFederation, row
from .http import Api

IT = "it"
CONNECTION = "127.0.0.1:50000 -> 127.0.0.1:5672"
REPORT = {"verdict": "complete", "totals": {}, "conservation": {"status": "complete"}}
# Segments of paths that are not `it`.
VALUES = {
    "{vhost}": "/",
    "{channel}": f"{CONNECTION} (1)",
    "{component}": "federation-upstream",
    "{port}": "5672",
    "{protocol}": "amqp",
    "{within}": "1",
    "{unit}": "days",
    "{kind}": "queue",
    "{limit}": "max-connections",
    "{resource}": "disk",
}
# What `name` is called in paths that begin with this segment.
NAMES = {"connections": CONNECTION, "definitions": "/"}
# The values of the query without which a route refuses the request.
QUERIES = {"/warren/access/{vhost}/{user}": "operation=read&name=it"}
STREAMS = ("/warren/events", "/warren/log/stream", "/warren/trace/{vhost}")
ENDS_AT_ONCE = "duration=0"
# The status of routes that have no object, in place of 200.
WITHOUT_OBJECT = {"/federation-links/{vhost}/{list}": 400}  # as in RabbitMQ, which has no such list


def prepare(api: Api, folder: Path) -> None:
    """Make the objects: a report below `folder`, and a connection of user `it` with a delivery, among others."""
    node, peer = api.peer.node, api.peer
    node.users.add(IT, hash_password(IT, b"salt", SHA256), ("administrator",), SHA256)
    node.users.set_permission(IT, "/", ".*", ".*", ".*")
    node.users.set_topic_permission(IT, "/", IT, ".*", ".*")
    node.limits.set_user(IT, {"max-connections": 1000})
    node.limits.set_vhost("/", {"max-connections": 1000})
    node.policies.set("/", IT, "^it$", {"max-length": 1_000_000})
    node.policies.set("/", IT, "^it$", {"max-length": 1_000_000}, operator=True)
    node.parameters.set("/", "federation-upstream", IT, {"uri": "amqp://it"})
    node.parameters.set_global(IT, 1)
    channel = peer.connect(IT, IT).channel()
    channel.exchange(IT, "topic")
    channel.declare(IT)
    channel.bind(IT, IT, IT)
    channel.bind_exchange(IT, IT, IT)
    channel.qos(1)
    channel.consume(IT)
    channel.publish("", IT, b"message")
    channel.sync()
    federation = FakeFederation()
    federation.rows = [row(id=IT, name=IT), row(id="down", status="error")]
    api.host.services["federation"] = federation
    api.host.listening = lambda: [Listening("amqp", "127.0.0.1:5672")]  # type: ignore[method-assign]
    (folder / IT).mkdir(parents=True)
    (folder / IT / "report.json").write_text(json.dumps(REPORT))
    (folder / IT / "index.html").write_text("<title>it</title>")
    api.host.config = dataclasses.replace(
        api.host.config, message_log=dataclasses.replace(api.host.config.message_log, reports=str(folder))
    )


def path_of(api: Api, route: Route) -> str:
    """Return the path and query of a route about the objects; a stream of lines ends at once."""
    values = VALUES | {"{node}": api.host.node.name, "{name}": NAMES.get(route.segments[0], IT)}
    segments = [quote(values.get(part, IT), safe="") if part[:1] == "{" else part for part in route.segments]
    query = ENDS_AT_ONCE if route.path in STREAMS else QUERIES.get(route.path, "")
    return "/" + "/".join(segments) + (query and f"?{query}")


def right_status(route: Route) -> int:
    """Return the status of a route that reads, if its object exists."""
    return WITHOUT_OBJECT.get(route.path, 200)


def readable() -> list[Route]:
    """The routes that read, without those of the unix socket."""
    return [route for route in routes().all if route.method == "GET" and route.guard is not LOCAL]
