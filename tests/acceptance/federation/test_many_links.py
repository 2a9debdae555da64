"""Very many links: a limit of their number, and passes over them during which something changes."""

from collections.abc import Iterator

import pytest

from tests.support.federation import CHECK_MS, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from warren.broker.config.config import Federation

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


@pytest.fixture
def own(loop: LoopThread) -> Iterator[Site]:
    """A broker that no other test uses, since the work of others takes time of its turns."""
    site = Site(loop, "own")
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
