"""A pass of the federation service over very many objects or upstreams holds no turn of the loop."""

from collections.abc import Iterator

import pytest

from tests.support.federation import Place, Site
from tests.support.polling import until_async
from tests.support.speed import within
from warren.broker.core.metadata.patterns import Pattern

from .meter import LIMIT_MS, MANY, TURN_MS, Meter
from .test_very_many_links import REFUSED, MeasuredLoop

UPSTREAMS = 200
COSTLY, NAME = "(a+)+$", "a" * 40 + "{}!"  # the search of each name takes as long as it may


@pytest.fixture
def down(meter: Meter) -> Iterator[Place]:
    site = Site(MeasuredLoop(meter), "down")
    yield site.place()
    site.close()


def federate(place: Place, definition: dict[str, object]) -> None:
    place.site.node.policies.set(place.vhost, "p", "^fed", definition, 0, "queues")


def pass_ms(place: Place, meter: Meter) -> float:
    """Return the longest turn of a pass that begins now, in milliseconds."""
    federation = place.site.federation

    async def work() -> None:
        federation.reconcile_soon()
        await until_async(lambda: federation._pass is None and not federation._soon)

    return meter.longest_ms(work)


def test_very_many_queues_whose_upstream_does_not_exist(meter: Meter, down: Place) -> None:
    """They ask for no link, so that no limit of links is reached, except one of 0."""
    vhost = down.site.node.vhosts[down.vhost]
    with down.site.host.acting("guest"):
        for number in range(MANY):
            vhost.declare_queue(f"fed{number}")
    down.upstream("up", REFUSED)
    federate(down, {"federation-upstream": "none"})
    for limit in (1, 0):
        down.site.federation._limit = limit
        assert within(pass_ms(down, meter), LIMIT_MS)


def test_a_pattern_that_takes_long_to_search_in_the_names_of_very_many_upstreams(
    meter: Meter, down: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are searched once, and a restart of a link searches none of them again."""
    searched: list[str] = []
    search = Pattern.search

    def counted(pattern: Pattern, name: str, *within_s: float) -> bool | None:
        searched.append(name)
        return search(pattern, name, *within_s)

    monkeypatch.setattr(Pattern, "search", counted)
    down.site.node.vhosts[down.vhost].declare_queue("fed")
    names = ["a", *[NAME.format(number) for number in range(UPSTREAMS)]]
    for name in names:
        down.upstream(name, REFUSED)
    federate(down, {"federation-upstream-pattern": COSTLY})
    searched.clear()
    assert within(pass_ms(down, meter), TURN_MS)
    assert searched == names
    (link,) = down.site.federation.links
    assert link.upstream == "a" and down.site.loop.call(lambda: down.site.federation.restart(link.id))
    down.upstream("aa", REFUSED)
    assert within(pass_ms(down, meter), TURN_MS)
    assert searched == [*names, "aa"]
    assert [link.upstream for link in down.site.federation.links] == ["a", "aa"]
