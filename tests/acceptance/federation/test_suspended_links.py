"""Links of a broker whose store another broker may own by now: they end without a word, and leave all as it is."""

from collections.abc import Iterator

import pytest

from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from warren.federation import exchange_link
from warren.federation.upstream.errors import NOT_ALONE

pytestmark = pytest.mark.sockets


class OwnedSite(Site):
    """A broker that has its store to itself as long as it is `alone`."""

    alone = True

    async def begin_federating(self) -> None:
        self.host.alone = lambda: self.alone
        await super().begin_federating()


@pytest.fixture
def downs(loop: LoopThread) -> Iterator[Place]:
    """A virtual host of such a broker."""
    site = OwnedSite(loop, "owned")
    yield site.place()
    site.close()


def events(down: Place) -> list[str]:
    return [event for event, _, _ in down.site.log if event in ("federation_suspended", "federation_resumed")]


def suspend(down: Place, alone: bool = False) -> None:
    assert isinstance(down.site, OwnedSite)
    down.site.alone = alone


def test_links_are_suspended_while_another_broker_may_own_the_store(up: Place, downs: Place) -> None:
    down = downs
    down.ch.exchange("fed.x", "fanout")
    down.ch.declare("fed.q")
    queue = down.listener("fed.x")
    down.link("^fed", up.uri, count=2)
    objects = up.queues(), up.exchanges()
    suspend(down)
    until(lambda: not up.site.connections("Federation link (upstream: u0, policy: federate)"))
    down.clear_policy()  # the links are not wanted any more
    federation = down.site.federation
    down.site.loop.call(federation._tick)
    until(lambda: federation._pass is None)
    assert len(down.rows()) == 2
    down.policy("^fed", {"federation-upstream-set": "all"})
    assert (up.queues(), up.exchanges()) == objects, "nothing is deleted"
    up.ch.publish("fed.x", "", b"meanwhile")
    suspend(down, alone=True)
    down.running(2)
    assert down.bodies(queue, 1) == [b"meanwhile"]
    assert events(down) == ["federation_suspended", "federation_resumed"]


def test_a_link_that_was_suspended_says_why(up: Place, downs: Place) -> None:
    downs.ch.exchange("fed.x", "fanout")
    downs.link("^fed", up.uri)
    suspend(downs)
    until(lambda: downs.row()["error"] == NOT_ALONE, lambda: str(downs.row()))


@pytest.mark.parametrize("leaves", [True, False])
def test_a_link_waits_for_the_one_of_a_former_owner_to_leave(
    up: Place, downs: Place, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    monkeypatch.setattr(exchange_link, "FORMER_S", 30 if leaves else 1)
    name = downs.upstream_queue()
    former = up.connect()
    arguments = {"x-internal-purpose": "federation", "x-queue-type": "classic"}
    former.channel().declare(name, durable=True, arguments=arguments)
    former.channel().consume(name)
    downs.ch.exchange("fed.x", "fanout")
    downs.federate("^fed", up.uri)
    until(lambda: len(up.queue(name).consumers) == 1 and downs.rows())
    if leaves:
        until(lambda: up.site.connections("Federation link (upstream: u0, policy: federate)"))
        assert up.exchanges() == []
        former.vanish()
    (row,) = downs.running()
    assert bool(row["degraded"]) is not leaves
