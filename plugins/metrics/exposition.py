"""Metrics as text, in the format that the scraper takes, written in slices."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.registry import Collector

from ..management.lists import in_slices

PIECE = 50  # samples written in one go: a quarter of a millisecond
PLAIN = "text/plain; version=0.0.4"  # as RabbitMQ says it: without a charset, which is UTF-8 anyway
END = b"# EOF\n"  # of OpenMetrics


class One(Collector):
    """A collector of one metric, as the library writes what it collects."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


class Text:
    """`accept` is the header of that name."""

    def __init__(self, accept: str) -> None:
        try:
            self._encode, self.content_type = choose_encoder(accept)
        except TypeError:  # the library compares a version that is no number with one that is
            self._encode, self.content_type = generate_latest, PLAIN
        if self.content_type == CONTENT_TYPE_PLAIN_0_0_4:
            self.content_type = PLAIN
        self._end = END if self.content_type.startswith("application/openmetrics-text") else b""

    async def of(self, metrics: AsyncIterable[Metric]) -> bytes:
        pieces: list[bytes] = []
        async for metric in metrics:
            pieces += await in_slices(self._pieces(metric), bytes)
        return b"".join(pieces) + self._end

    def _pieces(self, metric: Metric) -> Iterator[bytes]:
        samples, metric.samples = metric.samples, []
        head = self._written(metric)
        yield head
        for first in range(0, len(samples), PIECE):
            metric.samples = samples[first : first + PIECE]
            yield self._written(metric)[len(head) :]
        metric.samples = samples

    def _written(self, metric: Metric) -> bytes:
        return self._encode(One(metric)).removesuffix(self._end)
