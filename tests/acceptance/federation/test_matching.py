"""Scenarios 9 to 15: which exchanges and queues have links, and to which upstreams."""

import pytest

from tests.support.federation import Place
from tests.support.polling import until, until_steady

from .conftest import NewPlaces

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


def test_the_policy_of_the_highest_priority_alone_federates(down: Place) -> None:
    for name in ("one", "two"):
        down.upstream(name, NOBODY)
        down.upstream_set(f"set-{name}", {"upstream": name})
    down.ch.exchange("fed.x", "fanout")
    down.policy("^fed", {"federation-upstream-set": "set-one"}, "general", 0)
    linked(down, ("exchange", "fed.x", "one"))
    down.policy("^fed.x", {"federation-upstream-set": "set-two"}, "special", 2)
    linked(down, ("exchange", "fed.x", "two"))
    down.clear_policy("special")
    linked(down, ("exchange", "fed.x", "one"))


def test_a_policy_above_without_upstreams_ends_the_links(down: Place) -> None:
    down.upstream("one", NOBODY)
    down.ch.exchange("fed.x", "fanout")
    down.policy("^fed", {"federation-upstream-set": "all"}, "general", 0)
    linked(down, ("exchange", "fed.x", "one"))
    down.policy("^fed", {"alternate-exchange": "amq.fanout"}, "special", 1)
    linked(down)


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [("^localhost", ["localhost1", "localhost2"]), (r"local\d+x", ["mylocal5x"]), ("local", ["*"]), ("^none$", [])],
)
def test_a_pattern_chooses_upstreams_by_name(down: Place, pattern: str, chosen: list[str]) -> None:
    names = ["localhost1", "localhost2", "mylocal5x"]
    for name in [*names, "elsewhere"]:
        down.upstream(name, NOBODY)
    expected = names if chosen == ["*"] else chosen
    down.ch.exchange("fed.x", "fanout")
    down.ch.declare("fed.q")
    down.policy("^fed", {"federation-upstream-pattern": pattern})
    linked(down, *[("exchange", "fed.x", name) for name in expected], *[("queue", "fed.q", name) for name in expected])


def test_all_are_the_upstreams_of_this_virtual_host(here: NewPlaces) -> None:
    first, second = here(2)
    for name in ("one", "two"):
        first.upstream(name, NOBODY)
    second.upstream("three", NOBODY)
    for place in (first, second):
        place.ch.exchange("fed.x", "fanout")
        place.policy("^fed", {"federation-upstream-set": "all"})
    linked(first, ("exchange", "fed.x", "one"), ("exchange", "fed.x", "two"))
    linked(second, ("exchange", "fed.x", "three"))
    first.upstream("four", NOBODY)
    linked(first, *[("exchange", "fed.x", name) for name in ("one", "two", "four")])
    linked(second, ("exchange", "fed.x", "three"))


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


def test_of_a_new_virtual_host_five_exchanges_are_federated_by_everything(down: Place) -> None:
    down.upstream("one", NOBODY)
    down.policy(".*", {"federation-upstream-set": "all"})
    names = ("amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic")
    linked(down, *[("exchange", name, "one") for name in names])


def test_what_federation_itself_makes_is_never_federated(up: Place, down: Place) -> None:
    for one, other in ((up, down), (down, up)):
        one.ch.exchange("inner", "fanout", internal=True)
        one.ch.exchange("x", "fanout")
        one.federate(".*", other.inside, max_hops=5)
    for one in (up, down):
        one.listener("x", queue="q")
    for one in (up, down):
        one.running(7)  # the five of every virtual host, x and q
        assert {row["name"][:4] for row in one.rows()} == {"amq.", "x", "q"}
    until_steady(lambda: [(one.queues(), one.exchanges(), links(one)) for one in (up, down)])
    for one in (up, down):
        assert len([name for name in one.queues() if name.startswith("federation: ")]) == 6
        assert len([name for name in one.exchanges() if name.startswith("federation: ")]) == 6
        assert not any("federation: " in row["name"] or "inner" in row["name"] for row in one.rows())
