"""No request of the HTTP API that reads holds the loop, however many objects there are.

Turns are measured in processor time, so that it does not matter what else the machine does.
"""

import asyncio
from collections.abc import Iterator

import pytest

from plugins.management.routes import Route
from tests.support.http import Api, Response, answered, scope_of

from .crowd import crowded, path_of, readable
from .meter import Meter

LIMIT_MS = 20
PATIENCE_S = 120

# path -> the milliseconds that a turn of it may still take, 2.5 times what was measured on a busy machine, whose caches
# and collector take processor time too. No path may be added.
STILL_LONGER: dict[str, int] = {
    "/bindings": 280,
    "/bindings/%2F": 280,
    "/exchanges/%2F/amq.topic/bindings/source": 110,
    # References to 100,000 queues and 100,000 bindings are copied in one turn: the document is of one moment.
    "/definitions": 80,
    "/definitions/%2F": 80,
    "/all-configuration": 80,
    "/overview": 130,
    "/exchanges": 60,
    "/exchanges/%2F": 60,
    "/queues": 200,
    "/queues/detailed": 260,
    "/queues/%2F": 200,
}


@pytest.fixture(scope="module")
def crowd() -> Iterator[Api]:
    api = crowded()
    yield api
    api.close()


@pytest.fixture
def meter() -> Iterator[Meter]:
    made = Meter()
    yield made
    made.close()


def ask(api: Api, meter: Meter, path: str) -> Response:
    scope, octets = scope_of("GET", path)
    return meter.run(asyncio.wait_for(answered(api.application, scope, octets), PATIENCE_S))


@pytest.mark.parametrize("route", readable(), ids=lambda route: "/" + "/".join(route.segments))
def test_no_turn_of_a_request_takes_longer_than_20_ms(crowd: Api, meter: Meter, route: Route) -> None:
    path = path_of(route)
    response = ask(crowd, meter, path)
    assert response.status in (200, 204, 400, 404, 503)
    assert meter.longest_s * 1000 <= STILL_LONGER.get(path, LIMIT_MS)


def test_a_page_of_many_queues_is_shown_in_short_turns(crowd: Api, meter: Meter) -> None:
    response = ask(crowd, meter, "/queues?page=1&page_size=100&name=q9&use_regex=true")
    assert len(response.json["items"]) == 100
    assert meter.longest_s * 1000 <= 200  # measured: 70, by the list of all queues that it begins with
