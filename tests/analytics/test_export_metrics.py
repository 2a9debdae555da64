"""The figures of the broker that go with the log of messages."""

from collections.abc import Iterator
from typing import Any

from warren.broker.core.counters.histogram import LatencyHistogram
from warren.broker.plugin import Service
from warren.plugins.message_log.export.broker_metrics import LINKS, histogram, link_rows
from warren.plugins.message_log.file_format import schema

from .exporting import origin


class Federation(Service):
    """The federation service, as far as the metrics read it."""

    def __init__(self, *links: dict[str, Any]) -> None:
        self._links = list(links)

    def each_status(self) -> Iterator[dict[str, Any]]:
        yield from self._links


def test_a_histogram_counts_in_powers_of_two_of_microseconds() -> None:
    lag = LatencyHistogram()
    for seconds in (0.000_010, 0.000_100, 0.000_127, 0.001):
        lag.count(seconds)
    told = histogram(schema.LOOP_LAG_US, lag)
    buckets: Any = told["buckets"]
    assert {place: count for place, count in enumerate(buckets) if count} == {6: 1, 7: 2, 10: 1}
    assert 100 < 2**7 and 1000 < 2**10 and round(float(told["value"])) == 1237  # type: ignore[arg-type]


def test_links_are_known_by_the_queue_at_their_upstream() -> None:
    bringing = origin("link to up")
    bringing.link = "federation: x -> down"
    link = {"local_connection": "link to up", "vhost": "/", "upstream": "up", "reconnects": 2}
    silent = link | {"local_connection": "another"}
    [rows] = link_rows(Federation(link, silent), [bringing])
    labels = [("vhost", "/"), ("upstream", "up"), ("link", "federation: x -> down")]
    assert [(row["name"], row["value"], row["labels"]) for row in rows] == [
        (schema.LINK_STARTS, 3.0, labels),
        (schema.LINK_FAILURES, 2.0, labels),
    ]
    assert list(link_rows(None, [bringing])) == [[]] == list(link_rows(Service(), [bringing]))


def test_very_many_links_are_told_of_in_slices() -> None:
    bringing = origin("link to up")
    bringing.link = "federation: x -> down"
    link = {"local_connection": "link to up", "vhost": "/", "upstream": "up", "reconnects": 2}
    slices = [len(rows) for rows in link_rows(Federation(*[link] * (3 * LINKS + 1)), [bringing])]
    assert slices == [2 * LINKS] * 3 + [2]
