"""Scenarios 9 to 15: which exchanges and queues have links, and to which upstreams."""

import pytest

from tests.support.federation import Place
from tests.support.polling import until, until_steady

pytestmark = pytest.mark.sockets

NOBODY = "amqp://127.0.0.1:1"  # nothing listens there


def links(place: Place) -> list[tuple[str, str, str]]:
    """Kind, object and upstream of each, sorted."""
    return sorted((str(row["type"]), str(row["name"]), str(row["upstream"])) for row in place.rows())


def linked(place: Place, *expected: tuple[str, str, str]) -> None:
    until(lambda: links(place) == sorted(expected), lambda: f"{sorted(expected)}: {links(place)}")


def test_a_policy_may_name_an_upstream_that_comes_later(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.policy("^fed", {"federation-upstream": "later"})
    queue = down.listener("fed.x")
    down.ch.publish("fed.x", "", b"local")
    assert down.bodies(queue, 1) == [b"local"]
    assert down.rows() == []
    down.upstream("later", up.inside)
    (row,) = down.running()
    assert (row["name"], row["upstream"], row["policy"]) == ("fed.x", "later", "federate")


def test_a_set_may_name_upstreams_that_come_later(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.upstream_set("some", {"upstream": "one"}, {"upstream": "two"})
    down.policy("^fed", {"federation-upstream-set": "some"})
    assert down.rows() == []
    down.upstream("two", up.inside)
    down.running()
    down.upstream("one", up.inside, exchange="other")
    linked(down, ("exchange", "fed.x", "one"), ("exchange", "fed.x", "two"))


def test_a_policy_may_name_a_set_that_comes_later(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.upstream("one", up.inside)
    down.policy("^fed", {"federation-upstream-set": "some"})
    assert down.rows() == []
    down.upstream_set("some", {"upstream": "one", "exchange": "a"}, {"upstream": "one", "exchange": "b"})
    assert sorted(row["upstream_name"] for row in down.running(2)) == ["a", "b"]


def test_the_same_upstream_again_restarts_nothing(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.ch.declare("fed.q")
    down.federate("^fed", up.uri)
    before = down.running(2)
    connections = set(up.site.connections("Federation link (upstream: u0, policy: federate)"))
    down.federate("^fed", up.uri)
    until_steady(down.rows)
    assert [row["changed_s"] for row in down.rows()] == [row["changed_s"] for row in before]
    assert set(up.site.connections("Federation link (upstream: u0, policy: federate)")) == connections


def test_the_change_of_another_upstream_restarts_nothing(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.federate("^fed", up.inside)
    (before,) = down.running()
    down.upstream("other", NOBODY, exchange="elsewhere")
    linked(down, ("exchange", "fed.x", "u0"), ("exchange", "fed.x", "other"))
    down.upstream_set("unused", {"upstream": "other"})
    until_steady(lambda: links(down))
    assert down.row(upstream="u0")["changed_s"] == before["changed_s"]


def test_a_policy_for_exchanges_links_no_queue_and_the_other_way_round(down: Place) -> None:
    down.upstream("one", NOBODY)
    down.ch.exchange("fed", "fanout")
    down.ch.declare("fed")
    down.policy("^fed", {"federation-upstream-set": "all"}, apply_to="exchanges")
    linked(down, ("exchange", "fed", "one"))
    down.policy("^fed", {"federation-upstream-set": "all"}, apply_to="queues")
    linked(down, ("queue", "fed", "one"))
    down.policy("^fed", {"federation-upstream-set": "all"}, apply_to="all")
    linked(down, ("exchange", "fed", "one"), ("queue", "fed", "one"))
