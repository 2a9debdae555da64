"""Long scrapes are streams, written as the client library writes them, and end with the client."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tests.support.http import asgi_scope, call_application
from tests.support.metrics import Samples, Scraper
from warren.plugins.http.responses import HTTPError
from warren.plugins.prometheus import endpoint, scrape_stream
from warren.plugins.prometheus.exposition import PIECE, One, Table, Text
from warren.plugins.prometheus.families import Rows
from warren.plugins.prometheus.registries import collect
from warren.plugins.prometheus.scope import Scope
from warren.plugins.prometheus.scrape_stream import SCRAPES_LIMIT, SOURCE_SCRAPES_LIMIT, ScrapesInProgress, ScrapeStream

PATIENCE_S = 20
NAMES = ["plain", 'quo"te', "back\\slash", "new\nline", "%s %(queue)s", "{brace}", "é \u2028"]
VALUES = [0.0, 1, 2.5, 1e6, 123_456_789, 0.000_1, float("inf")]
ACCEPTS = [
    "",
    "application/openmetrics-text; version=1.0.0",
    "application/openmetrics-text; version=1.0.0; escaping=dots",
    "text/plain; version=1.0.0; escaping=allow-utf-8",
]


@pytest.mark.parametrize("accept", ACCEPTS)
@pytest.mark.parametrize("kind", [CounterMetricFamily, GaugeMetricFamily])
async def test_lines_of_objects_are_as_the_library_writes_them(accept: str, kind: Any) -> None:
    labels = ("vhost", "queue", "queue_type")
    rows = Rows(1)
    whole = kind("rabbitmq_things", "What there is", labels=labels)
    for name, value in zip(NAMES, VALUES, strict=True):
        rows.add(("/", name, "classic"), (value,))
        whole.add_metric(["/", name, "classic"], value)
    text = Text(accept)

    async def shown() -> AsyncIterator[Table]:
        yield Table(labels, [kind("rabbitmq_things", "What there is", labels=labels)], rows)

    assert b"".join([piece async for piece in text.pieces(shown())]) == text._encode(One(whole))


def with_queues(scraper: Scraper, count: int) -> Scraper:
    channel = scraper.peer.connect().channel()
    for number in range(count):
        channel.declare(f"q{number}")
    return scraper


@pytest.fixture
def crowd(scraper: Scraper) -> Scraper:
    return with_queues(scraper, 200)


def request(scraper: Scraper, encoding: str = "identity") -> dict[str, Any]:
    scope, _ = asgi_scope("GET", "/metrics/per-object", headers={"Accept-Encoding": encoding})
    return scope | {"raw_path": b"/metrics/per-object"}


async def stay() -> Any:
    await asyncio.get_running_loop().create_future()


def test_a_long_scrape_has_no_length_and_reads_as_one_compressed_or_not(crowd: Scraper) -> None:
    whole = crowd.get("/metrics/per-object")
    zipped = crowd.get("/metrics/per-object", headers={"Accept-Encoding": "gzip"})
    assert "content-length" not in whole.headers
    assert zipped.headers["content-encoding"] == "gzip"
    names = Samples(whole.body.decode()).names
    assert Samples(zipped.body.decode()).names >= names


async def test_a_scrape_ends_when_its_client_leaves(crowd: Scraper) -> None:
    events: list[Any] = []
    full = asyncio.Event()

    async def leave() -> Any:
        await full.wait()
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        events.append(event)
        if len(events) > 1:  # the client stops reading
            full.set()
            await asyncio.get_running_loop().create_future()

    await asyncio.wait_for(crowd._application(request(crowd), leave, send), 60)
    assert len(events) == 2
    assert events[1]["more_body"]


async def take_no_body(event: Any) -> None:
    if event["type"] == "http.response.body":
        await asyncio.get_running_loop().create_future()


async def test_a_scraper_that_reads_nothing_is_aborted(crowd: Scraper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_stream, "SEND_S", 0.01)
    async with asyncio.timeout(60):
        for _ in range(endpoint.AT_ONCE + 1):
            await crowd._application(request(crowd), stay, take_no_body)
    assert (await call_application(crowd._application, request(crowd), b"")).status == 200


async def test_slow_scrapers_do_not_block_others(crowd: Scraper) -> None:
    """A slow reader must not occupy the semaphore for making chunks."""
    slow = [crowd._application(request(crowd), stay, take_no_body) for _ in range(endpoint.AT_ONCE + 1)]
    tasks = [asyncio.ensure_future(each) for each in slow]
    async with asyncio.timeout(scrape_stream.SEND_S / 2):
        await asyncio.sleep(0)
        assert (await call_application(crowd._application, request(crowd), b"")).status == 200
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def stream(source: str) -> ScrapeStream:
    incoming: Any = SimpleNamespace(source=source)
    return ScrapeStream(incoming)


async def test_scrapes_are_limited_by_source() -> None:
    scrapes = ScrapesInProgress()
    for _ in range(SOURCE_SCRAPES_LIMIT):
        scrapes.admit(stream("10.0.0.1"))
    with pytest.raises(HTTPError) as caught:
        scrapes.admit(stream("10.0.0.1"))
    assert caught.value.answer.status == 503
    others = [stream(f"10.0.1.{number}") for number in range(SCRAPES_LIMIT - SOURCE_SCRAPES_LIMIT)]
    for other in others:
        scrapes.admit(other)
    with pytest.raises(HTTPError):
        scrapes.admit(stream("10.0.0.2"))
    scrapes.remove(others[0])
    scrapes.admit(stream("10.0.0.2"))


async def test_a_stalled_scraper_loses_its_place_to_a_new_one() -> None:
    scrapes = ScrapesInProgress()

    async def send(each: ScrapeStream, ago_s: float) -> None:
        async with asyncio.timeout(PATIENCE_S) as each.sending:
            each.since_s -= ago_s
            await asyncio.get_running_loop().create_future()

    begun = [stream("10.0.0.1") for _ in range(SOURCE_SCRAPES_LIMIT)]
    for each in begun:
        scrapes.admit(each)
    sending = [asyncio.ensure_future(send(each, 2.0 * number)) for number, each in enumerate(begun)]
    await asyncio.sleep(0)
    scrapes.admit(stream("10.0.0.1"))
    with pytest.raises(TimeoutError):
        await sending[-1]
    assert begun[-1].aborted and not any(task.done() for task in sending[:-1])
    for task in sending:
        task.cancel()
    await asyncio.gather(*sending, return_exceptions=True)


QUEUES = 1000


@pytest.fixture(scope="module")
def crowded() -> Scraper:
    """A broker with many queues."""
    return with_queues(Scraper(), QUEUES)


@pytest.mark.parametrize(("endpoint", "samples"), [("aggregated", QUEUES // 2), ("per-object", 30 * QUEUES)])
async def test_others_have_a_turn_after_each_piece(crowded: Scraper, endpoint: str, samples: int) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    text = b"".join([piece async for piece in Text("").pieces(collect(Scope(crowded.state), endpoint))])
    task.cancel()
    assert text.count(b"\n") > samples
    assert turns >= samples // PIECE // 10  # a fast machine writes several pieces in a slice


def test_a_text_written_in_pieces_is_complete(crowded: Scraper) -> None:
    samples: Samples = crowded.scrape("/metrics/per-object")
    assert len(samples.labels("rabbitmq_queue_messages")) == QUEUES
    text = crowded.get("/metrics/per-object").body.decode()
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
