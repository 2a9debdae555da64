"""Scenarios 69 and 72 to 77: what breaks at the upstream or on the way to it, and what becomes of the link.

Brokers that are killed are in test_broker_restarts.py.
"""

import asyncio
import os
from collections.abc import Callable

import pytest

from tests.support.federation import Place, Site
from tests.support.polling import WITHIN_S, until, until_steady
from warren.federation.connection_attempts import EACH

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

HEARTBEAT_S = 1
FAILING = 60
ATTEMPTS = 300  # of those that fail, in all
SPARE = 5  # files, connections or tasks that may come and go with other things
MANY = 120


def flows(up: Place, down: Place, here: str, body: bytes = b"flows") -> None:
    """Again, however long it takes until the exchange upstream is as it should be."""
    until(lambda: "k" in up.keys("fed.x"), lambda: f"bound: {up.keys('fed.x')}")
    up.ch.publish("fed.x", "k", body)
    assert down.get(here).body == body


def test_a_line_that_is_silent_is_given_up_and_what_waited_comes(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port, f"?heartbeat={HEARTBEAT_S}&connection_timeout=500"))
    proxy.silence()
    for number in range(1000):
        up.ch.publish("fed.x", "k", b"%d" % number)
    assert down.down()["error"]
    proxy.restore()
    down.running()
    until(lambda: down.ready(here) >= 1000, "all of them")
    until(lambda: down.row()["unconfirmed"] == 0 and up.ready(down.upstream_queue()) == 0, lambda: str(down.row()))
    assert list(dict.fromkeys(down.ch.drain(here))) == [b"%d" % number for number in range(1000)]


def test_a_link_that_is_restarted_keeps_its_backlog(up: Place, down: Place) -> None:
    here = down.linked(up)
    down.policy(f"^{here}$", {"max-length": 0, "overflow": "reject-publish"}, "full", apply_to="queues")
    for number in range(20):
        up.ch.publish("fed.x", "k", b"%d" % number)
    queue = down.upstream_queue()
    held(up, queue, 20)
    before = down.row()
    assert down.site.request("DELETE", restart_path(down)).status == 204
    until(lambda: down.row()["changed_s"] > before["changed_s"], "a change")
    down.running()
    held(up, queue, 20)
    down.clear_policy("full")
    assert down.bodies(here, 20) == [b"%d" % number for number in range(20)]


def held(place: Place, name: str, count: int) -> None:
    """Wait until the queue has this many messages, ready or unacknowledged."""

    def look() -> int:
        queue = place.queue(name)
        return queue.ready + queue.unacked if queue is not None else -1

    until(lambda: look() == count, lambda: f"{count} in {name}: {look()}")


def restart_path(down: Place) -> str:
    return f"/federation-links/vhost/{down.vhost}/{down.row()['id']}/{down.site.node.name}/restart"


def delete_internal_exchange(up: Place, down: Place) -> None:
    (internal,) = [name for name in up.exchanges() if name.startswith("federation: ")]
    up.ch.delete_exchange(internal)


def replace_exchange(up: Place, down: Place) -> None:
    up.ch.delete_exchange("fed.x")
    up.ch.exchange("fed.x", "direct")


@pytest.mark.parametrize(
    ("delete", "reconnects"),
    [
        (lambda up, down: up.ch.delete(down.upstream_queue()), True),
        (delete_internal_exchange, True),
        (lambda up, down: up.ch.delete_exchange("fed.x"), False),
        (replace_exchange, False),
    ],
    ids=["queue", "internal exchange", "exchange", "exchange that others declare again"],
)
def test_what_is_deleted_upstream_is_made_and_bound_again(
    up: Place, down: Place, delete: Callable[[Place, Place], None], reconnects: bool
) -> None:
    here = down.linked(up)
    delete(up, down)
    until(lambda: up.exchange("fed.x") and down.row()["reconnects"] >= reconnects, lambda: str(down.row()))
    flows(up, down, here)
    down.running()
    up.bound("fed.x", "k")
    until_steady(lambda: (up.exchanges(), up.queues()))
    assert up.queues() == [down.upstream_queue()]
    assert not reconnects or (len(up.exchanges()), down.row()["reconnects"]) == (2, 1)


def test_a_link_whose_rights_were_revoked_comes_back_when_they_are_granted(
    up: Place, down: Place, proxied: NewProxy
) -> None:
    user = f"linker-{up.vhost}"
    up.site.add_user(user, {up.vhost: (".*", ".*", ".*")})
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port, user=f"{user}:{user}"))
    users = up.site.node.users
    up.act(users.set_permission, user, up.vhost, "", "", "")
    proxy.blink()
    row = until(lambda: "ACCESS_REFUSED" in (row := down.row())["error"] and row, lambda: str(down.rows()))
    assert row["status"] in ("error", "shutdown")
    up.ch.publish("fed.x", "k", b"waits")
    up.act(users.set_permission, user, up.vhost, ".*", ".*", ".*")
    down.running()
    assert down.bodies(here, 1) == [b"waits"]


def test_links_that_fail_and_fail_leave_nothing_behind(own: Site, proxied: NewProxy) -> None:
    up, down = own.place(), own.place()
    here = down.linked(up)
    down.policy("^fed", {"federation-upstream": "u0"})
    refusing = proxied(own)
    refusing.cut()
    ways = [
        "amqp://127.0.0.1:1",
        up.through(refusing.port),
        up.through(own.port, user="nobody:wrong"),
        f"amqp://127.0.0.1:{own.port}/nowhere",
        "amqp://nobody:wrong@/" + up.vhost,
    ]
    healthy, before = down.row("fed.x"), counts(own)
    for number in range(FAILING):
        down.ch.exchange(f"bad.{number}", "fanout")
    for number, uri in enumerate(ways):
        down.upstream(f"bad{number}", uri)
    elements = {name: {"federation-upstream": f"bad{name}"} for name in range(len(ways))}
    for number, definition in elements.items():
        down.policy(f"^bad.*{number}$|^bad.*{number + 5}$", definition, f"bad{number}")

    def attempts() -> int:
        return sum(row["retries"] for row in down.rows())

    until(lambda: attempts() >= ATTEMPTS, lambda: f"attempts: {attempts()}", 2 * WITHIN_S)
    assert down.row("fed.x")["changed_s"] == healthy["changed_s"]
    flows(up, down, here)
    for number in elements:
        down.clear_policy(f"bad{number}")
    down.running()
    until(
        lambda: all(count <= was + SPARE for count, was in zip(counts(own), before, strict=True)),
        lambda: f"{counts(own)}, before there were {before}",
    )


def counts(site: Site) -> tuple[int, int, int]:
    """Open files, connections, and tasks."""
    tasks = site.loop.call(lambda: len(asyncio.all_tasks()))
    return len(os.listdir("/proc/self/fd")), site.loop.call(lambda: len(site.host.connections())), tasks


def test_many_links_start_soon_and_stop_soon_also_those_that_hang(own: Site, proxied: NewProxy) -> None:
    up, down = own.place(), own.place()
    silent = proxied(own)
    silent.silence()
    down.upstream("good", up.inside)
    down.upstream("hung", up.through(silent.port, "?connection_timeout=3600000"))
    for number in range(MANY):
        down.ch.exchange(f"{'good' if number % 2 else 'hung'}.{number}", "fanout")
    down.policy("^good", {"federation-upstream": "good"}, "good")
    down.policy("^hung", {"federation-upstream": "hung"}, "hung")

    def running() -> int:
        return len([row for row in down.rows() if row["status"] == "running"])

    until(lambda: running() == MANY // 2, lambda: f"running: {running()}")
    until(lambda: silent.open == EACH, lambda: f"dialled: {silent.open}")
    own.loop.run(own.stop_federating(), WITHIN_S)  # one after the other those that hang would take minutes
    dialled = silent.accepted
    until_steady(lambda: (silent.open, silent.accepted, len(own.host.connections())))
    assert (silent.open, silent.accepted) == (0, dialled)
    assert len([name for name in up.queues() if name.startswith("federation: ")]) == MANY // 2


def test_links_wait_while_another_broker_may_act_as_this_one(own: Site) -> None:
    """They are suspended at the start, and later; what a link has upstream is not removed meanwhile."""
    up, down = own.place(), own.place()
    own.loop.run(own.stop_federating())
    alone = False
    own.host.alone = lambda: alone
    own.loop.run(own.begin_federating())
    for name in ("fed.x", "fed.y"):
        down.ch.exchange(name, "fanout")
    here = down.listener("fed.x")
    down.federate("^fed", up.uri)
    until(lambda: "federation_suspended" in [event for event, _, _ in own.log], "it is not said")
    assert not down.rows()
    alone = True
    down.running(2)
    queues = up.queues()
    alone = False
    until(lambda: not own.connections("Federation link (upstream: u0, policy: federate)"), "no connection")
    up.ch.publish("fed.x", "", b"meanwhile")
    down.ch.delete_exchange("fed.y")
    until_steady(up.queues)
    assert up.queues() == queues and len(queues) == 2
    alone = True
    assert down.get(here).body == b"meanwhile"
    until(lambda: up.queues() == queues[:1], "its queue stays")
