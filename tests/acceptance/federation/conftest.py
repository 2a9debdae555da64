"""Fixtures: three brokers that all tests share; each test has virtual hosts of its own."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.proxy import Proxy

NewPlaces = Callable[[int], list[Place]]
NewProxy = Callable[[Site], Proxy]


@pytest.fixture(scope="session")
def sites(loop: LoopThread) -> Iterator[list[Site]]:
    """Three brokers, a, b and c."""
    sites = [Site(loop, name) for name in "abc"]
    yield sites
    for site in sites:
        site.close()


@pytest.fixture
def own(loop: LoopThread) -> Iterator[Site]:
    """A broker of this test's own."""
    site = Site(loop, "own")
    yield site
    site.close()


@pytest.fixture
def here(sites: list[Site]) -> Iterator[NewPlaces]:
    """New virtual hosts of the broker a."""
    made: list[Place] = []

    def make(count: int) -> list[Place]:
        places = [sites[0].place() for _ in range(count)]
        made.extend(places)
        return places

    yield make
    for place in reversed(made):
        place.close()


@pytest.fixture
def everywhere(sites: list[Site]) -> Iterator[list[Place]]:
    """The same virtual host of three brokers."""
    first = sites[0].place()
    places = [first, *[site.place(first.vhost) for site in sites[1:]]]
    yield places
    for place in reversed(places):
        place.close()


@pytest.fixture
def up(here: NewPlaces) -> Place:
    """A virtual host to federate from."""
    return here(1)[0]


@pytest.fixture
def down(here: NewPlaces, up: Place) -> Place:
    """A virtual host that federates: it goes before the one it federates from."""
    return here(1)[0]


@pytest.fixture
def proxied(loop: LoopThread) -> Iterator[NewProxy]:
    """New proxies before brokers."""
    made: list[Proxy] = []

    def make(site: Site) -> Proxy:
        made.append(Proxy(loop, ("127.0.0.1", site.port)))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()
