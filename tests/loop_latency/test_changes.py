"""No request of the HTTP API that changes something holds the loop, however many objects it concerns.

Each test makes the objects that its request concerns, as the request makes an end of them.
"""

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from tests.support.http import Api, request
from warren.broker.amqp.field_table import Table
from warren.broker.core.metadata.records import StoredPermission, StoredTopicPermission, StoredUser

from .broker import StepMeter, fill
from .meter import LIMIT_MS, MANY, Meter, attempts_within

SOME = MANY // 3  # of what is done in slices all the same, and takes long to make
FEW = MANY // 10  # of what nobody has more of
CONNECTIONS = MANY // 100  # take longest to make


def queues(api: Api, count: int = MANY, vhost: str = "/") -> None:
    api.peer.node.add_vhost(vhost)
    for number in range(count):
        api.peer.node.vhosts[vhost].declare_queue(f"q{number}")


def queues_of_another(api: Api) -> None:
    """Make the queues of another virtual host, which is deleted."""
    queues(api, SOME, "v")


def bindings(api: Api) -> None:
    """Make many bindings between one queue and one exchange."""
    vhost = api.peer.node.vhosts["/"]
    vhost.declare_exchange("x", "topic")
    queue = vhost.declare_queue("q")
    for number in range(SOME):
        vhost.bind("x", queue, f"k{number}", Table.EMPTY)


def parameters(api: Api) -> None:
    """Policies that match nothing, and upstreams."""
    node = api.peer.node
    for number in range(FEW // 10):
        node.policies.set("/", f"p{number}", "^none$", {"max-length": number})
    for number in range(FEW):
        node.parameters.set("/", "federation-upstream", f"u{number}", {"uri": "amqp://u"})


def permissions(api: Api) -> None:
    """Set permissions of one user in very many virtual hosts, which have nothing else."""
    node = api.peer.node
    node.users.add("u", b"", ())
    for number in range(FEW // 10):
        node.add_vhost(f"v{number}")
        node.users.set_permission("u", f"v{number}", "", "", "")


def topic_permissions(api: Api) -> None:
    """Set very many topic permissions of one user in another virtual host, which is deleted."""
    node = api.peer.node
    node.add_vhost("v")
    node.users.add("u")
    for number in range(MANY):
        node.users.restore_topic_permission(StoredTopicPermission("u", "v", f"x{number}", "", ""))


def users(api: Api) -> None:
    """Make very many users with permissions in another virtual host, which is deleted."""
    node = api.peer.node
    node.add_vhost("v")
    for number in range(SOME):
        node.users.restore(StoredUser(f"u{number}", b"", ()))
        node.users.restore_permission(StoredPermission(f"u{number}", "v", "", "", ""))


def users_beside_vhosts(api: Api) -> None:
    """Make very many users and virtual hosts, in each of which a user could have cached routes."""
    for number in range(FEW // 2):
        api.peer.node.add_vhost(f"v{number}")
        api.peer.node.users.restore(StoredUser(f"u{number}", b"", ()))


def connections(api: Api) -> None:
    """Open connections of one user. The peer settles faster if it forgets their sockets."""
    for _ in range(CONNECTIONS):
        api.peer.connect().channel()
        api.peer._sockets.clear()


def messages(api: Api) -> None:
    """Fill a queue that is moved to another."""
    channel = api.peer.connect().channel()
    for name in ("q", "other"):
        channel.declare(name, durable=True)
    fill(api.peer, "q", MANY)


def deliveries(api: Api) -> None:
    """Have very many deliveries of two queues outstanding on some channels."""
    messages(api)
    for number in range(10):
        consumer = api.peer.connect().channel()
        consumer.qos(MANY // 10)
        consumer.consume("q" if number else "other")


MOVE = json.dumps({"destination": {"queue": "other"}, "count": MANY}).encode()
LIMITED = json.dumps({"pattern": "", "definition": {"max-length": 1}}).encode()
GIVEN = {f"v{number}": dict.fromkeys(("configure", "write", "read"), f"^{number}") for number in range(FEW // 2)}
USER = json.dumps({"tags": "", "permissions": GIVEN}, separators=(",", ":")).encode()
USERS = json.dumps({"users": [f"u{number}" for number in range(FEW // 2)]}).encode()
STATUS = {"PUT": (201,), "DELETE": (204,), "POST": (200, 204), "GET": (200,)}
REQUESTS: list[tuple[str, str, bytes, Callable[[Api], None]]] = [
    ("PUT", "/policies/%2F/p", LIMITED, queues),
    ("DELETE", "/vhosts/v", b"", queues_of_another),
    ("DELETE", "/exchanges/%2F/x", b"", bindings),
    ("DELETE", f"/bindings/%2F/e/x/q/q/k{SOME - 1}", b"", bindings),
    ("DELETE", "/users/u", b"", permissions),
    ("PUT", "/users/u", USER, users_beside_vhosts),
    ("POST", "/users/bulk-delete", USERS, users_beside_vhosts),
    ("DELETE", "/vhosts/v", b"", users),
    ("DELETE", "/vhosts/v", b"", topic_permissions),
    ("DELETE", "/users/u", b"", topic_permissions),
    ("DELETE", "/topic-permissions/v/u", b"", topic_permissions),
    ("GET", "/users/u/topic-permissions", b"", topic_permissions),
    ("GET", "/definitions", b"", topic_permissions),
    ("DELETE", "/connections/username/guest", b"", connections),
    ("POST", "/warren/queues/%2F/q/move", MOVE, messages),
    ("GET", "/warren/queues/%2F/q/unacked?limit=500", b"", deliveries),
    ("GET", "/policies", b"", parameters),
    ("GET", "/parameters", b"", parameters),
    ("DELETE", f"/parameters/federation-upstream/%2F/u{FEW - 1}", b"", parameters),
]


def longest_ms(method: str, path: str, body: bytes, make: Callable[[Api], None]) -> float:
    """The longest turn of the request and of the jobs that it starts."""
    api, meter = Api(), Meter()
    make(api)

    def turn() -> None:
        """Advance the deletion of bindings, for which a request waits."""
        if api.peer.node.vhosts["/"].unbinding_jobs:
            api.peer.clock.run_next(api.peer.clock.now_ms())
        meter.loop.call_soon(turn)

    api.peer.clock.after_each = lambda: None  # one turn at a time
    meter.loop.call_soon(turn)
    response = meter.run(request(api.application, method, path, body))
    assert response.status in STATUS[method], response.body
    meter.close()
    longest_s, begun_s = meter.longest_s, time.thread_time()

    def turned() -> None:
        nonlocal longest_s, begun_s
        longest_s, begun_s = max(longest_s, time.thread_time() - begun_s), time.thread_time()

    api.peer.clock.after_each = turned
    api.peer.clock.advance(0)
    assert not len(api.peer.node.scheduler)
    return longest_s * 1000


@pytest.mark.parametrize(
    ("method", "path", "body", "make"),
    REQUESTS,
    ids=lambda value: value.decode()[:70] if isinstance(value, bytes) else getattr(value, "__name__", None),
)
def test_no_turn_of_a_change_is_long(method: str, path: str, body: bytes, make: Callable[[Api], None]) -> None:
    for took_ms in attempts_within(LIMIT_MS):
        took_ms.append(longest_ms(method, path, body, make))


def test_a_virtual_host_that_is_made_again_while_the_former_one_is_released(step_meter: StepMeter) -> None:
    """The request waits, and so does an import of definitions for a queue whose former bindings are being deleted."""

    async def requests(api: Api) -> None:
        document = {"queues": [{"vhost": "/", "name": "bound"}]}
        made = asyncio.gather(
            request(api.application, "PUT", "/vhosts/v", {}),
            request(api.application, "POST", "/definitions", document),
        )
        while not made.done():
            await asyncio.sleep(0)
            api.peer.settle()
            api.peer.clock.advance(0)
        assert [response.status for response in made.result()] == [201, 204]

    for peer in step_meter.peers():
        api = Api(peer)
        peer.node.add_vhost("v")
        for number in range(3_000):
            peer.node.vhosts["v"].declare_queue(f"q{number}")
        queue = peer.node.vhosts["/"].declare_queue("bound")
        for number in range(3_000):
            peer.node.vhosts["/"].bind("amq.direct", queue, f"k{number}", Table.EMPTY)
        step_meter.begin()
        step_meter.measured(peer.node.delete_vhost)("v")
        step_meter.measured(peer.node.vhosts["/"].delete_queue)(queue)
        assert peer.node.is_ending("v") and peer.node.vhosts["/"].unbinding_jobs
        asyncio.run(requests(api))
        assert not peer.node.is_ending("v") and not peer.node.vhosts["/"].unbinding_jobs
        assert not peer.node.vhosts["v"].queues and not peer.node.vhosts["/"].queues["bound"].incoming
