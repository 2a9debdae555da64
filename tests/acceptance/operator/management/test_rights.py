"""Rights to see connections and messages: the same right in each route that shows them.

A user connects from an address, publishes and consumes. Every route that reads is called by users of all tags, with and
without the right to read the queue, and its response is searched for what belongs to the connection and the message.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest
from pamqp.commands import Basic, Queue

from tests.support.http import Api
from warren.plugins.http.auth import Caller
from warren.plugins.management.api import routes
from warren.plugins.management.framework.router import Route

ADDRESS, OWNER, KEY, PAYLOAD, HEADER = "10.9.8.7", "the-owner", "secret.key", "secret payload", "secret header"
CONNECTION = f"{ADDRESS}:50000 -> 127.0.0.1:5672"
STREAMS = ("/warren/trace/{vhost}", "/warren/log/stream", "/warren/events")
TAGS = ("management", "policymaker", "monitoring", "administrator")
NAMES = {
    "{vhost}": "%2F", "{queue}": "q", "{exchange}": "amq.topic", "{source}": "amq.topic", "{destination}": "amq.fanout",
    "{props}": "secret.%23", "{channel}": quote(f"{CONNECTION} (1)", ""), "{user}": OWNER, "{kind}": "queues",
    "{name}": quote(CONNECTION, ""), "{port}": "5672", "{within}": "1", "{unit}": "days", "{protocol}": "amqp",
    "{node}": "{node}", "{component}": "policy", "{pattern}": "q", "{password}": "x", "{report}": "x", "{id}": "x",
    "{list}": "x",
}  # fmt: skip
# what belongs to whom: the texts, and the right to see them
RIGHTS: dict[str, tuple[tuple[str, ...], Callable[[Caller], bool]]] = {
    "connection": ((ADDRESS, OWNER), lambda caller: caller.monitors),
    "message": ((KEY, PAYLOAD, HEADER), lambda caller: caller.user.permissions["/"].allows("read", "q")),
}
SHOWN = {  # the routes that show it to a user with the right
    "connection": {
        "/connections", "/connections/{name}", "/vhosts/{vhost}/connections", "/connections/username/{user}",
        "/channels", "/channels/{channel}", "/vhosts/{vhost}/channels", "/connections/{name}/channels",
        "/consumers", "/consumers/{vhost}", "/queues/{vhost}/{queue}", "/exchanges/{vhost}/{exchange}",
        "/warren/queues/{vhost}/{queue}/unacked",
    },
    "message": {"/queues/{vhost}/{queue}/get", "/warren/queues/{vhost}/{queue}/unacked"},
}  # fmt: skip
READING: list[Route] = [
    route
    for route in routes().all
    if route.guard.name not in ("none", "local") and route.path not in STREAMS
    if route.method == "GET" or route.path.endswith("/get")
]


class Visitor(NamedTuple):
    """A user of the HTTP API without a connection."""

    tag: str
    reads: bool


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A broker with detailed rates and the other user's connection, exclusive queue, consumer and messages."""
    made = Api(rates_mode="detailed")
    peer = made.peer
    peer.add_user(OWNER)
    channel = peer.connect(OWNER, OWNER, address=ADDRESS).channel()
    channel.declare("q")
    channel.call(Queue.Declare, queue="own", exclusive=True)
    channel.bind("q", "amq.topic", "secret.#")
    for _ in range(3):
        channel.publish("amq.topic", KEY, PAYLOAD.encode(), {"headers": {"h": HEADER}})
    channel.get("q", no_ack=False)
    channel.call(Basic.Qos, prefetch_count=1)
    channel.consume("q", consumer_tag="tag")
    channel.sync()
    for tag in TAGS:
        peer.add_user(tag, (tag,), ("^$", "^$", "^$"))
        peer.add_user(f"{tag}-reads", (tag,), ("^$", "^$", "^q$"))
    yield made
    made.close()


def body_of(api: Api, route: Route, user: str) -> str:
    parts = [NAMES.get(part, part).replace("{node}", api.host.node.name) for part in route.segments]
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"} if route.method == "POST" else None
    response = api.request(route.method, "/" + "/".join(parts), body, user=user)
    assert response.status in (200, 400, 401, 404, 503), (route, response)
    return response.text if response.status == 200 else ""


@pytest.mark.parametrize("visitor", [Visitor(tag, reads) for tag in TAGS for reads in (False, True)], ids=str)
def test_a_route_shows_only_objects_that_the_caller_may_see(api: Api, visitor: Visitor) -> None:
    name = f"{visitor.tag}-reads" if visitor.reads else visitor.tag
    user = api.host.node.users.get(name)
    assert user is not None
    caller = Caller(user)
    bodies = {route: body_of(api, route, name) for route in READING}
    for what, (texts, has_right) in RIGHTS.items():
        showing = {route.path for route, body in bodies.items() if any(text in body for text in texts)}
        if not has_right(caller):
            assert not showing, what
        elif caller.administers and visitor.reads:
            assert showing >= SHOWN[what]
