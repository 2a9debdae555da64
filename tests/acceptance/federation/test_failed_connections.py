"""Scenarios 26, 29, 30 and 32: links that cannot, or not yet, connect, and what they leave alone."""

import pytest

from tests.support.federation import Place, Site
from tests.support.polling import until, until_steady

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

LINK = "Federation link (upstream: u0, policy: federate)"
EARLY = 0.85  # of the delay between two attempts, which varies by a tenth


def pauses(proxied_s: list[float]) -> list[float]:
    """The delays between the attempts."""
    return [later - sooner for sooner, later in zip(proxied_s, proxied_s[1:], strict=False)]


def test_the_end_of_an_upstream_of_a_queue_leaves_the_exchange_of_that_name_alone(up: Place, down: Place) -> None:
    down.ch.exchange("n", "direct")
    down.ch.declare("n")
    here = down.listener("n", "k")
    down.upstream("for-exchange", up.inside)
    down.upstream("for-queue", up.inside)
    down.policy("^n$", {"federation-upstream": "for-exchange"}, "exchanges", apply_to="exchanges")
    down.policy("^n$", {"federation-upstream": "for-queue"}, "queues", apply_to="queues")
    rows = {row["type"]: row for row in down.running(2)}
    down.clear_upstream("for-queue")
    (left,) = down.running()
    assert (left["type"], left["changed_s"]) == ("exchange", rows["exchange"]["changed_s"])
    up.bound("n", "k")
    up.ch.publish("n", "k", b"from upstream")
    assert down.get(here).body == b"from upstream"
    down.ch.publish("n", "k", b"from here")
    assert down.get(here).body == b"from here"
    down.ch.bind(here, "n", "another")
    up.bound("n", "another", "k")


def test_while_the_upstream_is_away_all_works_here_and_the_link_comes_back(
    up: Place, down: Place, proxied: NewProxy
) -> None:
    proxy = proxied(up.site)
    proxy.cut()
    down.ch.exchange("fed.x", "fanout")
    here = down.listener("fed.x")
    down.federate("^fed", up.through(proxy.port))
    row = down.down()
    assert row["status"] == "error" and row["error"] and not row["local_connection"]
    down.ch.publish("fed.x", "", b"from here")
    assert down.get(here).body == b"from here"
    until(lambda: down.row()["retries"] >= 3, "three attempts")
    proxy.restore()
    down.running()
    assert (down.row()["error"], down.row()["retries"]) == ("", 0)
    up.bound("fed.x", "")
    up.ch.publish("fed.x", "", b"from upstream")
    assert down.get(here).body == b"from upstream"


@pytest.mark.parametrize("delay_s", [0.2, 0.6])
def test_attempts_are_as_far_apart_as_the_upstream_says(
    up: Place, down: Place, proxied: NewProxy, delay_s: float
) -> None:
    proxy = proxied(up.site)
    proxy.cut()
    down.ch.exchange("fed.x", "fanout")
    down.federate("^fed", up.through(proxy.port), reconnect_delay=delay_s)
    until(lambda: proxy.accepted >= 3, "three attempts")
    assert min(pauses(proxy.accepted_s)) >= EARLY * delay_s
    assert until(lambda: (row := down.row())["next_attempt_s"] and row, "a wait")["status"] == "error"


def test_a_link_that_ran_tries_once_without_a_delay(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", up.through(proxy.port), reconnect_delay=1)
    before = proxy.accepted
    proxy.cut()
    until(lambda: proxy.accepted >= before + 2, "two attempts")
    assert pauses(proxy.accepted_s[before:])[0] >= EARLY
    proxy.restore()
    assert down.running()[0]["reconnects"] == 1


@pytest.mark.parametrize(("mode", "channels"), [("single", 1), ("multiple", 2)])
def test_a_link_has_as_many_channels_as_it_was_told(up: Place, down: Place, mode: str, channels: int) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", up.uri, channel_use_mode=mode)
    assert steady_channels(up.site) == channels
    assert len(up.site.connections("Disposable exchange federation link connection")) == 0


def steady_channels(site: Site) -> int:
    (connection,) = site.connections(LINK)
    until_steady(lambda: len(connection.channels), 0.1)
    return len(connection.channels)
