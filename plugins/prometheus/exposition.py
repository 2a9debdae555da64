"""The text format of metrics, chosen by the scraper, written in slices and streamed in pieces.

The client library writes single metrics, and for families of objects the header and one line as a pattern. The lines
of objects are made from that pattern, as the library takes ten times as long for a line and keeps an object for each.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UntypedMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from ..http.time_slices import SLICE_S, in_slices
from .families import Rows

PIECE = 50  # samples written in one step: some hundredths of a millisecond
PLAIN = "text/plain; version=0.0.4"  # without a charset, as in RabbitMQ; it is UTF-8
END = b"# EOF\n"  # of OpenMetrics
SPECIAL = re.compile(r'[\\\n"]')
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})  # in the values of labels
NUMBERS = 4096  # values with cached text: most values of a scrape are 0 or repeat

Labelled = CounterMetricFamily | GaugeMetricFamily | UntypedMetricFamily
number = lru_cache(NUMBERS)(floatToGoString)


class One(Collector):
    """A collector of one metric, in the form that the library writes."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


@dataclass(slots=True)
class Table:
    """Families of the same objects: a metric without samples for each column of the rows."""

    labels: Sequence[str]
    metrics: Sequence[Labelled]
    rows: Rows


class Text:
    """A writer of one text format. `accept` is the header of that name."""

    def __init__(self, accept: str) -> None:
        try:
            self._encode, self.content_type = choose_encoder(accept)
        except TypeError:  # the library cannot compare a version that is not a number
            self._encode, self.content_type = generate_latest, PLAIN
        if self.content_type == CONTENT_TYPE_PLAIN_0_0_4:
            self.content_type = PLAIN
        self._end = END if self.content_type.startswith("application/openmetrics-text") else b""

    async def pieces(self, shown: AsyncIterable[Metric | Table]) -> AsyncGenerator[bytes, None]:
        """Yield the text in pieces of about PIECE lines, with a pause after each slice."""
        async for one in shown:
            if isinstance(one, Table):
                async for piece in self._table(one):
                    yield piece
            else:
                yield self._written(one)
            await asyncio.sleep(0)
        yield self._end

    async def _table(self, table: Table) -> AsyncIterator[bytes]:
        labels: list[str] | None = None
        for metric, column in zip(table.metrics, table.rows.columns, strict=True):
            head, name, form = self._form(metric, table.labels)
            if labels is None:  # the same for all families
                labels = await labels_of(form, table, len(column))
            yield head
            until_s = time.perf_counter() + SLICE_S
            for piece in lines(name, labels, column):
                yield piece
                if time.perf_counter() >= until_s:
                    await asyncio.sleep(0)
                    until_s = time.perf_counter() + SLICE_S

    def _form(self, metric: Labelled, labels: Sequence[str]) -> tuple[bytes, str, str]:
        """Return the header of a family, the name of its samples, and the pattern of their labels."""
        head = self._written(metric)
        metric.add_metric([f"%({key})s" for key in labels], 0)
        line = self._written(metric)[len(head) :].decode().rstrip("\n").rpartition(" ")[0]
        metric.samples = []
        name, brace, rest = line.partition("{")
        return head, name, brace + rest

    def _written(self, metric: Metric) -> bytes:
        return self._encode(One(metric)).removesuffix(self._end)


async def labels_of(form: str, table: Table, objects: int) -> list[str]:
    """Return the labels of each object as text."""
    if not table.labels:
        return [""] * objects
    texts = [iter(table.rows.texts)] * len(table.labels)  # one iterator; each object takes a text for each label
    rows = in_slices(zip(*texts, strict=True))
    return [form % dict(zip(table.labels, map(escape, own), strict=True)) async for own in rows]


def escape(text: str) -> str:
    return text.translate(ESCAPES) if SPECIAL.search(text) else text


def lines(name: str, labels: Sequence[str], column: Iterable[float]) -> Iterator[bytes]:
    """Yield the samples of a family, PIECE at a time."""
    rows = zip(labels, column, strict=True)
    while piece := "".join([f"{name}{label} {number(value)}\n" for label, value in islice(rows, PIECE)]):
        yield piece.encode()
