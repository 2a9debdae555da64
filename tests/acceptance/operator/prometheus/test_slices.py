"""A scrape yields to the event loop between pieces."""

import asyncio

import pytest

from tests.support.metrics import Samples, Scraper
from warren.plugins.prometheus.exposition import PIECE, Text
from warren.plugins.prometheus.registries import collect
from warren.plugins.prometheus.scope import Scope

QUEUES = 1000


@pytest.fixture(scope="module")
def crowded() -> Scraper:
    """A broker with many queues."""
    scraper = Scraper()
    channel = scraper.peer.connect().channel()
    for number in range(QUEUES):
        channel.declare(f"q{number}")
    return scraper


async def turns_of_others(scraper: Scraper, endpoint: str) -> tuple[int, bytes]:
    """Return how often another task ran during a scrape, and the scrape."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    text = b"".join([piece async for piece in Text("").pieces(collect(Scope(scraper.state), endpoint))])
    task.cancel()
    return turns, text


@pytest.mark.parametrize(("endpoint", "samples"), [("aggregated", QUEUES // 2), ("per-object", 30 * QUEUES)])
def test_others_have_a_turn_after_each_piece(crowded: Scraper, endpoint: str, samples: int) -> None:
    turns, text = asyncio.run(turns_of_others(crowded, endpoint))
    assert text.count(b"\n") > samples
    assert turns >= samples // PIECE // 10  # a fast machine writes several pieces in a slice


def test_what_is_written_in_pieces_reads_as_if_it_had_been_written_at_once(crowded: Scraper) -> None:
    samples: Samples = crowded.scrape("/metrics/per-object")
    assert len(samples.labels("rabbitmq_queue_messages")) == QUEUES
    text = crowded.get("/metrics/per-object").body.decode()
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
