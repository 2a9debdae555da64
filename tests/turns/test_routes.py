"""No request of the HTTP API that reads holds the loop, however many objects there are.

Turns are measured in processor time, so that it does not matter what else the machine does.
"""

import json
from collections.abc import Iterator

import pytest

from tests.support.http import Api
from warren.plugins.management.framework.router import Route

from .crowd import Reader, crowded, path_of, readable
from .meter import LIMIT_MS, Meter


@pytest.fixture(scope="module")
def crowd() -> Iterator[Api]:
    api = crowded()
    yield api
    api.close()


@pytest.mark.parametrize("route", readable(), ids=lambda route: "/" + "/".join(route.segments))
def test_no_turn_of_a_request_takes_longer_than_20_ms(crowd: Api, meter: Meter, route: Route) -> None:
    reader = Reader(crowd)
    assert meter.longest_ms(lambda: reader.read(path_of(route))) <= LIMIT_MS
    assert reader.status in (200, 204, 400, 404, 503)


@pytest.mark.parametrize("query", ["page=1&page_size=100&name=q9&use_regex=true", "page=2&sort=messages", "page=3"])
def test_a_page_of_many_queues_is_shown_in_short_turns(crowd: Api, meter: Meter, query: str) -> None:
    reader = Reader(crowd, keeps=True)
    assert meter.longest_ms(lambda: reader.read(f"/queues?columns=name&{query}")) <= LIMIT_MS
    assert len(json.loads(reader.body)["items"]) == 100
