"""Links that run and cannot do all that is expected of them: their status says so."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until

pytestmark = pytest.mark.sockets


@pytest.fixture
def namesakes(loop: LoopThread) -> Iterator[list[Site]]:
    """Three brokers with one cluster name, as brokers of one host have that were given none."""
    sites = [Site(loop, "same") for _ in range(3)]
    yield sites
    for site in sites:
        site.close()


def test_a_link_between_brokers_of_one_cluster_name_says_what_it_cannot_do(namesakes: list[Site]) -> None:
    up, one, other = [site.place("shared") for site in namesakes]
    up.ch.exchange("fed.x", "fanout")
    for down in (one, other):
        down.ch.exchange("fed.x", "fanout")
        down.federate("^fed", up.uri)
        row = down.running()[0]
        assert row["degraded"] is True
        assert "the upstream has the same cluster name, 'same'" in row["reason"]
    shared = "another broker with the same cluster name takes messages from the queue upstream"
    until(lambda: shared in other.row()["reason"], lambda: str(other.row()))
    [listed] = other.site.request("GET", f"/federation-links/{other.vhost}").json
    assert listed["degraded"] is True and shared in listed["reason"] and listed["state"] == "flowing"
    assert other.site.request("GET", f"/federation-links/{other.vhost}/none").status == 400


def test_a_link_that_does_all_it_should_is_not_degraded(everywhere: list[Place]) -> None:
    up, down, _ = everywhere
    down.linked(up, up.uri)
    assert (down.row()["degraded"], down.row()["reason"]) == (False, "")


@pytest.mark.parametrize("hops", [0, -1])
def test_a_link_that_no_message_may_pass_says_so(up: Place, down: Place, hops: int) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.federate("^fed", up.uri, max_hops=hops)
    row = down.running()[0]
    assert (row["degraded"], row["reason"]) == (True, f"max-hops is {hops}: no message may pass the link")


def test_a_link_that_starts_and_starts_again_leaves_no_error_in_the_upstreams_log(own: Site, down: Place) -> None:
    up = own.place()
    up.ch.exchange("fed.x", "topic")
    queue = down.linked(up, up.uri)
    for body in (b"first", b"second"):
        until(lambda: "k" in up.keys("fed.x"), "bound")
        up.ch.publish("fed.x", "k", body)
        assert down.get(queue).body == body
        up.act(own.host.close_connections, lambda one: one.client_name.startswith("Federation"), "bye")
        until(lambda: down.row()["reconnects"], "broken")
        down.running()
    assert not [entry for entry in own.log if entry[0] == "channel_closing"]
    assert len([name for name in up.exchanges() if name.startswith("federation: ")]) == 1


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        ({"prefetch_count": -1}, "error", "prefetch-count is -1, it must be from 0 to 65535"),
        ({"prefetch_count": 10**30}, "error", "it must be from 0 to 65535"),
        ({"expires": 0}, "error", "x-expires"),
        ({"message_ttl": -1}, "error", "x-message-ttl"),
        ({"uri": []}, "invalid_upstream_uri", "the upstream has no URI"),
        ({"max_hops": -1}, "running", ""),
        ({"max_hops": 10**30, "reconnect_delay": 10**30}, "running", ""),
    ],
)
def test_settings_that_an_import_brings_and_no_link_can_work_by_are_told_by_the_link(
    up: Place, down: Place, settings: dict[str, Any], status: str, words: str
) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.upstream("u", **{"uri": up.inside, **settings})
    down.policy("^fed", {"federation-upstream": "u"})
    until(lambda: down.row()["status"] == status and words in down.row()["error"], lambda: str(down.row()))
