"""The objects of a scrape."""

import time

from warren.broker.core.counters.statistics import Statistics
from warren.broker.core.metadata.patterns import QUERY_LONGEST_BYTES, QUERY_SEARCH_S, query_pattern
from warren.broker.plugin import Exchange, Invalid, Queue, VHost
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection

from ..http.time_slices import in_slices
from .state import MetricsState

PATTERN_S = 0.05  # for the names of all queues together


class BadPattern(Exception):
    """An invalid pattern; the text names the fault."""


class Scope:
    """The objects of a scrape, in all virtual hosts or some (`vhosts`).

    All groups see the same queues. Each group reads the connections again, as the counters of a closed connection move
    to those of its virtual host.
    """

    def __init__(self, state: MetricsState, vhosts: set[str] | None = None) -> None:
        self.state = state
        self.host = state.host
        self.node = state.host.node
        every = self.node.vhosts.values()
        self.vhosts: list[VHost] = [one for one in every if vhosts is None or one.name in vhosts]
        self.statistics = Statistics()  # of the node, once `sum_statistics` has added them
        self.queues: list[Queue] = []
        for vhost in self.vhosts:
            self.queues += vhost.queues.values()

    @property
    def connections(self) -> list[Connection]:
        """The connections that have opened a virtual host."""
        return [one for one in self.host.connections() if one.vhost is not None]

    @property
    def exchanges(self) -> list[Exchange]:
        return [exchange for vhost in self.vhosts for exchange in vhost.exchanges.values()]

    @property
    def channels(self) -> list[Channel]:
        return [channel for connection in self.connections for channel in connection.channels.values()]

    async def sum_statistics(self) -> None:
        async for _ in in_slices(self.node.sum_statistics(self.statistics)):
            pass

    async def match(self, pattern: str) -> None:
        """Keep only the queues whose names match. Raises BadPattern."""
        if len(pattern.encode("utf-8", "surrogatepass")) > QUERY_LONGEST_BYTES:
            raise BadPattern("'queue' regex too long")
        try:
            wanted = query_pattern(pattern)
        except Invalid as error:
            raise BadPattern(f"Invalid 'queue' regex: {error.text}") from None
        left_s = PATTERN_S

        matches = []
        async for queue in in_slices(self.queues):
            begun_s = time.thread_time()
            match = wanted.search(queue.name, min(max(left_s, 1e-6), QUERY_SEARCH_S))
            left_s -= time.thread_time() - begun_s
            if match is None:
                raise BadPattern("'queue' regex takes too long")
            if match:
                matches.append(queue)
        self.queues = matches
