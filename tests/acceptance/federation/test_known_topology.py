"""The topology around a broker as far as it knows it, over the HTTP API."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.federation import Place
from tests.support.polling import until

Link = dict[str, Any]


def topology(place: Place, **more: Any) -> dict[str, Any]:
    answer = place.site.request("GET", f"/warren/federation/topology/{quote(place.vhost, '')}", **more)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def edges(place: Place) -> set[tuple[str, str, str]]:
    """The upstream, the downstream and the status of each link; farther ones have the status "distant"."""
    links = topology(place)["links"]
    return {(one["from"], one["to"], "distant" if one.get("distant") else one["status"]) for one in links}


def known(place: Place, *expected: tuple[str, str, str]) -> None:
    until(lambda: edges(place) == set(expected), lambda: f"{expected}: {topology(place)}")


def one_link(place: Place, upstream: str, downstream: str) -> Link:
    found = [one for one in topology(place)["links"] if (one["from"], one["to"]) == (upstream, downstream)]
    assert len(found) == 1, found
    return found[0]  # type: ignore[no-any-return]


@pytest.fixture
def ring(everywhere: list[Place]) -> list[Place]:
    """Three brokers, each with the previous one as upstream, and a listener at each."""
    for place in everywhere:
        place.ch.exchange("fed.x", "topic")
        place.listener("fed.x", "k")
    for at, place in enumerate(everywhere):
        place.federate("^fed[.]", everywhere[at - 1].uri, max_hops=2)
    for place in everywhere:
        place.running()
    return everywhere


def test_each_broker_of_a_ring_knows_the_whole_ring(ring: list[Place]) -> None:
    a, b, _ = ring
    known(a, ("c", "a", "running"), ("a", "b", "running"), ("b", "c", "distant"))
    known(b, ("a", "b", "running"), ("b", "c", "running"), ("c", "a", "distant"))
    own, theirs = one_link(a, "c", "a"), one_link(a, "a", "b")
    assert own["id"] == a.rows()[0]["id"] and own["upstream"] == "u0"
    assert (theirs["type"], theirs["name"], theirs["downstream_vhost"]) == ("exchange", "fed.x", b.vhost)
    assert theirs["queue"] in a.queues() and theirs["connection"]
    brokers = topology(a)["brokers"]
    assert brokers == [{"name": name, "is_cluster_name": True} for name in "abc"]


def test_a_downstream_that_is_gone_is_shown_with_what_waits_for_it(ring: list[Place]) -> None:
    a, b, _ = ring
    known(a, ("c", "a", "running"), ("a", "b", "running"), ("b", "c", "distant"))
    b.site.loop.run(b.site.stop_federating())
    try:
        a.ch.publish("fed.x", "k", b"waits")
        until(lambda: one_link(a, "a", "b")["backlog"] == 1, "the message that waits")
        assert one_link(a, "a", "b")["status"] == "disconnected"
    finally:
        b.site.loop.run(b.site.begin_federating())
    b.running()


def test_a_queue_link_of_another_broker_is_known_by_the_connection_and_what_it_consumes(
    everywhere: list[Place],
) -> None:
    a, b, _ = everywhere
    for place in (a, b):
        place.ch.declare("fed.q")
    b.link("^fed[.]", a.uri)
    known(a, ("a", "b", "running"))
    idle = one_link(a, "a", "b")
    assert (idle["type"], idle["state"], idle["name"]) == ("queue", "paused", "")
    b.ch.consume("fed.q")
    until(lambda: one_link(a, "a", "b")["state"] == "flowing", "a link with demand")
    assert one_link(a, "a", "b")["queue"] == "fed.q"


def test_an_upstream_that_never_answered_is_known_by_its_first_address_without_credentials(up: Place) -> None:
    up.ch.exchange("fed.x", "topic")
    up.policy("^fed[.]", {"federation-upstream": "u0"})
    up.upstream("u0", ["amqp://user:secret@127.0.0.1:1/v?password=secret", "amqp://user:secret@127.0.0.1:2/v"])
    up.down()
    link = one_link(up, "127.0.0.1:1", "a")
    assert link["status"] == "error" and link["error"]
    assert {"name": "127.0.0.1:1", "is_cluster_name": False} in topology(up)["brokers"]
    assert "secret" not in str(topology(up))


def test_links_between_virtual_hosts_of_one_broker_are_links_to_itself(up: Place, down: Place) -> None:
    for place in (up, down):
        place.ch.exchange("fed.x", "topic")
    down.listener("fed.x", "k")
    down.link("^fed[.]", up.inside)
    known(down, ("a", "a", "running"))
    known(up)  # the other end of the same link


def test_only_monitoring_sees_the_topology(up: Place) -> None:
    site = up.site
    for name, tag in (("watch", "monitoring"), ("maker", "policymaker")):
        site.add_user(f"{name}-{up.vhost}", {up.vhost: (".*", ".*", ".*")}, (tag,))
    path = "/warren/federation/topology"
    assert site.request("GET", path, user=f"watch-{up.vhost}").status == 200
    assert site.request("GET", path, user=f"maker-{up.vhost}").status == 401
