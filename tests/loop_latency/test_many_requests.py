"""Requests that come at once, each with a step of milliseconds, make these steps in turns of their own."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.http import Api, request
from tests.support.metrics import Scraper
from tests.support.speed import within

from .meter import TURN_MS, Meter

AT_ONCE = 48
LONG_NAMES = 400
COSTLY = quote("^(a|aa)+$")
NESTED = b'{"arguments":{"a":[' + b"[]," * 19_000 + b"[]]}}"
HEADERS = b",".join(b'"k%d":"v"' % number for number in range(1000))
MESSAGE = b'{"properties":{"headers":{%s}},"routing_key":"x","payload":"y","payload_encoding":"string"}' % HEADERS
KEYS = b",".join(b'"k%d":1' % number for number in range(5000))


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    for number in range(LONG_NAMES):
        api.peer.node.vhosts["/"].declare_queue("a" * 200 + f"{number}!")
    yield api
    api.close()


def longest_ms(meter: Meter, application: Any, method: str, path: str, body: bytes, status: int) -> float:
    """Return the longest turn while as many requests come at once; each is answered with this status."""
    came: list[int] = []

    async def answer() -> None:
        came.append((await request(application, method, path, body or None)).status)

    async def all_of_them() -> None:
        await asyncio.gather(*[answer() for _ in range(AT_ONCE)])

    longest = meter.longest_ms(all_of_them)
    assert set(came) <= {status, 503} and status in came
    return longest


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"/queues?page=1&name={COSTLY}&use_regex=true", b"", 400),
        ("GET", f"/warren/policy-preview/%2F?pattern={COSTLY}", b"", 400),
        ("PUT", "/queues/%2F/q", NESTED, 400),
        ("PUT", "/policies/%2F/p", b'{"pattern":"^zz","definition":{%s}}' % KEYS, 400),
        ("POST", "/exchanges/%2F/amq.default/publish", MESSAGE, 200),
    ],
)
def test_costly_requests_that_come_at_once_share_no_turn(
    api: Api, meter: Meter, method: str, path: str, body: bytes, status: int
) -> None:
    assert within(longest_ms(meter, api.application, method, path, body, status), TURN_MS)


def test_scrapes_with_costly_patterns_that_come_at_once_share_no_turn(meter: Meter) -> None:
    scraper = Scraper()
    for number in range(LONG_NAMES):
        scraper.peer.node.vhosts["/"].declare_queue("a" * 200 + f"{number}!")
    path = f"/metrics/detailed?family=queue_metrics&queue={COSTLY}"
    assert within(longest_ms(meter, scraper._application, "GET", path, b"", 400), TURN_MS)
    scraper.close()
