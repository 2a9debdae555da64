"""Very many links: a limit of their number, and passes over them during which something changes."""

from collections.abc import Iterator

import pytest

from tests.support.federation import CHECK_MS, Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from warren.broker.config.config import Federation
from warren.federation.service import fair_shares

pytestmark = pytest.mark.sockets

LIMIT = 3
REFUSED = "warren.federation_link_limit is reached; the link starts when others have ended"


@pytest.fixture
def limited(loop: LoopThread) -> Iterator[Site]:
    """A broker with a limit of links."""
    federation = Federation(internal_exchange_check_interval=CHECK_MS, link_limit=LIMIT)
    site = Site(loop, "limited", federation=federation)
    yield site
    site.close()


def test_links_beyond_the_limit_are_refused_and_start_when_others_have_ended(limited: Site) -> None:
    up, down = limited.place(), limited.place()
    for number in range(LIMIT + 2):
        down.ch.exchange(f"fed.{number}", "fanout")
    down.federate("^fed", up.inside)

    def statuses() -> list[str]:
        return sorted(f"{row['status']} {row['error']}".strip() for row in down.rows())

    until(lambda: statuses() == [f"error {REFUSED}"] * 2 + ["running"] * LIMIT, lambda: str(statuses()))
    assert limited.federation.count_by_status() == {"running": LIMIT, "error": 2}
    listed = limited.request("GET", f"/federation-links/{down.vhost}/state/down").json
    assert [link["error"] for link in listed] == [REFUSED] * 2
    since = [row["changed_s"] for row in down.rows() if row["error"]]
    running = [row["name"] for row in down.rows() if row["status"] == "running"]
    down.ch.delete_exchange(running[0])
    until(lambda: statuses() == [f"error {REFUSED}"] + ["running"] * LIMIT, lambda: str(statuses()))
    assert next(row["changed_s"] for row in down.rows() if row["error"]) in since
    assert [event for event, *_ in limited.log].count("federation_link_limit") == 1
    down.clear_policy()
    until(lambda: not down.rows() and not limited.federation.refused_count, lambda: str(statuses()))


def test_a_refused_link_is_not_restarted_and_the_answer_says_why(limited: Site) -> None:
    up, down = limited.place(), limited.place()
    for number in range(LIMIT + 1):
        down.ch.exchange(f"fed.{number}", "fanout")
    down.federate("^fed", up.inside)
    until(lambda: [row["error"] for row in down.rows() if row["error"]] == [REFUSED], lambda: str(down.rows()))
    (id,) = [row["id"] for row in down.rows() if row["error"]]
    path = f"/federation-links/vhost/{down.vhost}/{id}/{limited.node.name}/restart"
    answer = limited.request("DELETE", path)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": REFUSED})
    down.clear_policy()
    until(lambda: not down.rows(), lambda: str(down.rows()))


def test_virtual_hosts_share_the_places(limited: Site) -> None:
    up, *places = (limited.place() for _ in range(3))
    first, last = sorted(places, key=lambda place: place.vhost)

    def running(place: Place) -> int:
        return [row["status"] for row in place.rows()].count("running")

    for number in range(2 * LIMIT):
        first.ch.exchange(f"fed.{number}", "fanout")
    first.federate("^fed", up.inside)
    until(lambda: running(first) == LIMIT, lambda: str(first.rows()))
    last.ch.exchange("fed", "fanout")
    last.federate("^fed", up.inside)
    until(lambda: (running(first), running(last)) == (LIMIT - 1, 1), lambda: str(last.rows()))
    assert [row["error"] for row in first.rows() if row["error"]] == [REFUSED] * (LIMIT + 1)
    last.clear_policy()
    until(lambda: (running(first), running(last)) == (LIMIT, 0), lambda: str(first.rows()))
    first.clear_policy()
    until(lambda: not first.rows(), lambda: str(first.rows()))


def test_links_that_do_not_run_leave_their_places_first(limited: Site) -> None:
    up, one, other = limited.place(), limited.place(), limited.place()
    one.ch.exchange("fed.0", "fanout")
    one.upstream("gone", "amqp://127.0.0.1:1")
    one.federate("^fed", up.inside)
    one.ch.exchange("fed.1", "fanout")
    until(lambda: len(limited.federation.links) == LIMIT, lambda: str(one.rows()))
    until(lambda: "running" in [row["status"] for row in one.rows()], lambda: str(one.rows()))
    ran = [row["id"] for row in one.rows() if row["status"] == "running"]
    other.ch.exchange("fed", "fanout")
    other.federate("^fed", up.inside)
    until(lambda: [row["status"] for row in other.rows()] == ["running"], lambda: str(other.rows()))
    assert set(ran) <= {row["id"] for row in one.rows() if row["status"] == "running"}
    for place in (one, other):
        place.clear_policy()
    until(lambda: not limited.federation.links, "the end")


@pytest.mark.parametrize(
    ("wanted", "limit", "shares"),
    [
        ({"a": 9, "z": 1}, 5, {"a": 4, "z": 1}),
        ({"a": 1, "b": 2}, 5, {"a": 1, "b": 2}),
        ({"a": 9, "b": 9, "c": 2}, 9, {"a": 3, "b": 4, "c": 2}),
        ({"a": 1, "b": 1, "c": 1}, 2, {"a": 0, "b": 1, "c": 1}),
        ({"a": 3}, 0, {"a": 0}),
        ({}, 5, {}),
    ],
)
def test_fair_shares(wanted: dict[str, int], limit: int, shares: dict[str, int]) -> None:
    assert fair_shares(wanted, limit) == shares


def test_what_changes_during_a_pass_leads_to_another_one(own: Site) -> None:
    up, down = own.place(), own.place()
    service = own.federation
    for number in range(40):  # more than one turn of the loop starts links for
        down.ch.exchange(f"fed.{number}", "fanout")
    down.upstream("u0", up.inside)

    def begin() -> tuple[bool, int]:
        with own.host.acting("guest"):
            own.node.policies.set(down.vhost, "p", "^fed", {"federation-upstream-set": "all"}, 0, "all")
        own.node.scheduler.finish_all()
        service._tick()
        begun = service._pass
        started = len(service.links)
        with own.host.acting("guest"):
            own.node.policies.clear(down.vhost, "p")
        service._tick()  # while the first pass goes on
        return service._pass is begun is not None, started

    same, started = own.loop.call(begin)
    assert same and 0 < started < 40
    until(lambda: service._pass is None and not service.links, lambda: f"links: {len(service.links)}")
