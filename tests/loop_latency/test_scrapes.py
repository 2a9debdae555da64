"""No scrape holds the loop, nor is its text kept in memory, however many queues there are."""

from collections.abc import Iterator

import pytest

from tests.support.metrics import Scraper
from tests.support.speed import within
from warren.plugins.prometheus.families import Rows
from warren.plugins.prometheus.scrape_stream import CHUNK_BYTES

from .crowd import Reader
from .meter import LIMIT_MS, Meter

QUEUES = 8_000  # a scrape is made in slices; what takes longer with more queues is one list of them alone
GROUPS = "&".join(f"family={name}" for name in ("queue_coarse_metrics", "queue_metrics", "queue_delivery_metrics"))
# path -> lines for each queue
PATHS = {"/metrics": 0, "/metrics/per-object": 33, f"/metrics/detailed?{GROUPS}": 29}


@pytest.fixture(scope="module")
def crowd() -> Iterator[Scraper]:
    scraper = Scraper()
    vhost = scraper.peer.node.vhosts["/"]
    for number in range(QUEUES):
        vhost.declare_queue(f"q{number}")
    yield scraper
    scraper.close()


@pytest.mark.parametrize(
    ("path", "encoding"), [*((path, "identity") for path in PATHS), ("/metrics/per-object", "gzip")]
)
def test_a_scrape_of_many_queues_is_sent_in_short_turns_and_pieces(
    crowd: Scraper, meter: Meter, path: str, encoding: str
) -> None:
    reader = Reader(crowd._application)
    headers = {"Accept-Encoding": encoding}
    assert within(meter.longest_ms(lambda: reader.read(path, headers=headers)), LIMIT_MS)
    assert max(map(len, reader.pieces)) < 2 * CHUNK_BYTES
    assert not reader.pieces[-1] or not PATHS[path]  # the end of a stream
    assert encoding == "gzip" or reader.body.count(b"\n") > PATHS[path] * QUEUES


def test_values_of_many_objects_are_kept_in_arrays_and_texts_alone() -> None:
    rows = Rows(2)
    rows.add(("/", "a"), (1, 2.5))
    rows.add(("/", "b"), (True, 4))
    assert rows.texts == ["/", "a", "/", "b"]
    assert [column.tolist() for column in rows.columns] == [[1, 1], [2.5, 4]]
