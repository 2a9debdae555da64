"""No request of the HTTP API that reads holds the loop, however many objects there are.

Turns are measured in processor time, so that it does not matter what else the machine does.
"""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.http import Api
from tests.support.prepared import path_of, right_status
from tests.support.speed import within

from .crowd import Reader, crowded, readable_and_finite
from .meter import LIMIT_MS, TURN_MS, Meter


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    api = crowded(tmp_path_factory.mktemp("crowd") / "reports")
    yield api
    api.close()


ROUTES = readable_and_finite()


@pytest.mark.parametrize("resource", sorted({route.segments[0] for route in ROUTES}))
def test_no_turn_of_a_request_is_long(crowd: Api, meter: Meter, resource: str) -> None:
    wrong = []
    for route in [route for route in ROUTES if route.segments[0] == resource]:
        reader = Reader(crowd.application)
        path = path_of(crowd, route)
        longest_ms = meter.longest_ms(lambda reader=reader, path=path: reader.read(path))
        if not within(longest_ms, LIMIT_MS) or reader.statuses[-1] != right_status(route):
            wrong.append(f"{route}: {reader.statuses[-1]}, {longest_ms:.1f} ms")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("query", ["page=1&page_size=100&name=q9&use_regex=true", "page=2&sort=messages", "page=3"])
def test_a_page_of_many_queues_is_shown_in_short_turns(crowd: Api, meter: Meter, query: str) -> None:
    reader = Reader(crowd.application)
    assert within(meter.longest_ms(lambda: reader.read(f"/queues?columns=name&{query}")), LIMIT_MS)
    assert len(json.loads(reader.body)["items"]) == 100


@pytest.mark.parametrize("columns", ["", "?columns=name", "?columns=consumer_details.consumer_tag"])
def test_an_object_of_many_consumers_with_long_arguments_is_shown_in_short_turns(meter: Meter, columns: str) -> None:
    api = Api()
    channel = api.peer.connect().channel()
    channel.declare("q")
    arguments = {f"key{number}": number for number in range(1000)}
    for number in range(100):
        channel.consume("q", consumer_tag=f"c{number}", arguments=arguments)
    reader = Reader(api.application)
    [name] = [one["name"] for one in api.get("/channels?columns=name").json]
    for path in ("/queues/%2F/q", f"/channels/{quote(name)}"):
        assert within(meter.longest_ms(lambda path=path: reader.read(path + columns)), TURN_MS)
        assert reader.statuses[-1] == 200
    api.close()
