"""Lists and totals over very many virtual hosts that one user may enter are made in short turns."""

from collections.abc import Iterator

import pytest

from tests.support.http import Api
from tests.support.metrics import Scraper
from tests.support.speed import within
from warren.plugins.management.stats.counters import KINDS
from warren.plugins.management.stats.history import Samples
from warren.plugins.management.stats.sampler import Sampler

from .crowd import Reader
from .meter import TURN_MS, Meter, limit_ms

VHOSTS = 5_000
LISTS = ("overview", "policies", "operator-policies", "vhosts", "vhost-limits", "exchanges", "queues", "consumers",
         "parameters", "permissions", "whoami", "federation-links", "bindings", "nodes")  # fmt: skip


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    api = Api()
    node = api.peer.node
    names = [f"v{number}" for number in range(VHOSTS)]
    for name in names:
        node.add_vhost(name)
        for operator in (False, True):
            node.policies.set(name, "p", "^x", {"max-length": 1}, operator=operator)
    api.peer.add_user("watcher", ("policymaker",))
    for name in names:
        node.users.set_permission("watcher", name, ".*", ".*", ".*")
    yield api
    api.close()


@pytest.mark.parametrize("path", LISTS)
def test_very_many_virtual_hosts_are_listed_in_short_turns(api: Api, meter: Meter, path: str) -> None:
    reader = Reader(api.application)
    assert within(meter.longest_ms(lambda: reader.read(f"/{path}", "watcher")), TURN_MS)
    assert set(reader.statuses) <= {200, 401}


def test_counters_of_very_many_virtual_hosts_are_sampled_in_short_turns(api: Api, meter: Meter) -> None:
    kept = []  # as to free it takes long

    async def sample() -> None:
        kept.append(Samples(KINDS))
        await Sampler(api.peer.node, kept[-1], api.peer.server.connections.values).sample_in_slices()

    assert within(meter.longest_ms(sample), limit_ms(VHOSTS))


def test_counters_of_very_many_virtual_hosts_are_scraped_in_short_turns(meter: Meter) -> None:
    scraper = Scraper()
    for number in range(VHOSTS):
        scraper.peer.node.add_vhost(f"v{number}")
    reader = Reader(scraper._application)
    assert within(meter.longest_ms(lambda: reader.read("/metrics")), limit_ms(VHOSTS))
    scraper.close()
