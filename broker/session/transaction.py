"""The transaction of a channel: publishes and settlements that wait for a commit."""

from ..amqp.errors import PreconditionFailed
from ..core.exchanges.router import FEW, Route
from ..core.jobs.scheduler import SLICE, STORE_SHIFT, TURN_COST, Job
from ..core.messages.message import Message, ShedMessage
from ..core.queues.deduplication import Recorders
from ..core.queues.ledger import Ledger
from ..core.queues.route_target import PAGE_COST, Targets, cost_of_each, cost_of_records
from .channel_host import ChannelHost, ChannelState
from .settlements import RUN_COST, TOGETHER, consumer_tag, cost_of_copies
from .unacked import LOOKUP_SHIFT, ROW_COST, Settlement, Unacked

PUBLISH_COST = 8  # of one publish, in the scheduler's units
PUBLISH_BYTES, QUEUE_BYTES = 450, 8  # of memory: of a publish with its route, beside its frames; of each queue of that

Publish = tuple[Route, Message, Targets, Recorders]
"""A publish of a transaction: route, message, targets and recorders."""


class Transaction:
    """The transaction of a channel: routed publishes, and settlements, whose deliveries are no longer outstanding.

    `transaction_max_bytes` of the settings limits the memory of the publishes of all channels of the connection, which
    no consumer can free; 0 for no limit. `published_bytes` is that of this channel.
    """

    __slots__ = ("publishes", "settlements", "_connection", "published_bytes", "_cost", "_extra_cost", "_steps")

    def __init__(self, connection: ChannelHost) -> None:
        self._connection = connection
        self.published_bytes = 0
        self._cost = 0  # of the publishes (`jobs.scheduler`)
        self._extra_cost = 0  # of the settlements, beside COST for each: copies, and changes from one way to another
        self.publishes: list[Publish] = []
        self.settlements: list[tuple[int, Unacked, Settlement]] = []
        self._steps: Job | None = None  # a long settlement or rollback under way

    def publish(self, route: Route, message: Message, queues: Targets, recorders: Recorders) -> None:
        """Add a publish; raises PreconditionFailed (406) beyond the limit."""
        published_bytes = len(message.frames) + PUBLISH_BYTES + QUEUE_BYTES * len(queues)
        self.published_bytes += published_bytes
        self._connection.transaction_bytes += published_bytes
        largest_bytes = self._connection.settings.transaction_max_bytes
        if self._connection.transaction_bytes > largest_bytes > 0:
            what = "transactions of a connection are"
            if self.published_bytes > largest_bytes:
                what = f"transaction with {len(self.publishes)} publishes is"
            raise PreconditionFailed(f"{what} larger than configured max size {largest_bytes}")
        self._cost += PUBLISH_COST + cost_of_each([message], queues) * len(queues)
        self._cost += cost_of_records(len(message.frames), queues[:FEW])
        self.publishes.append((route, message, queues, recorders))

    def settle(self, items: list[tuple[int, Unacked]], settlement: Settlement) -> int:
        """Add settlements of removed deliveries, and return the cost. Their contents leave memory if that is used up.

        If that fails, a rollback makes all of them outstanding again.
        """
        first = len(self.settlements)
        if items and first and self.settlements[-1][2] is not settlement:
            self._extra_cost += RUN_COST
        self.settlements += [(tag, delivery, settlement) for tag, delivery in items]
        return sum([self._shed(at) for at in range(first, len(self.settlements))])

    def _shed(self, at: int) -> int:
        """Have the content of a settled delivery leave memory if that is used up; return the cost of the settlement."""
        tag, delivery, settlement = self.settlements[at]
        queue, consumer, position, message = delivery
        cost = 1
        if queue.host.ledger.exceeded and not isinstance(message, ShedMessage):
            log = queue.host.traffic_log
            kept = log is not None and log.needs_content(consumer_tag(consumer), queue)
            shed = None if kept else queue.shed_content(position, message)
            if shed is not None:
                delivery = queue, consumer, position, shed
                self.settlements[at] = tag, delivery, settlement
                cost += ROW_COST + (len(message.frames) >> STORE_SHIFT)
        self._extra_cost += cost_of_copies(settlement, (delivery,))
        return cost

    def settle_many(self, channel: ChannelState, tags: range, settlement: Settlement) -> Job:
        """Add settlements of those of some deliveries that are outstanding, in steps."""
        self._steps = self._settle_many(channel, tags, settlement)
        yield from self._steps
        self._steps = None

    def _settle_many(self, channel: ChannelState, tags: range, settlement: Settlement) -> Job:
        unacked = channel.unacked
        for some in unacked.slices(tags):
            shed = unacked.shed_count
            cost = self.settle(unacked.pop_items(some), settlement)
            yield (SLICE >> LOOKUP_SHIFT) + cost + ROW_COST * (shed - unacked.shed_count)

    def is_long(self, ledger: Ledger) -> bool:
        """Whether its commit or rollback takes more than one turn of the loop."""
        cost = self._cost * PAGE_COST if ledger.exceeded else self._cost
        return cost + self._extra_cost > TURN_COST or len(self.settlements) > TOGETHER

    def has_sinks(self) -> bool:
        """Whether exchange types take publishes, which may enqueue them in many steps, or queues let them wait."""
        targets = (queue for _, _, queues, _ in self.publishes for queue in queues)
        return any(target.internal or target.must_not_reject for target in targets)

    def forget_publishes(self) -> None:
        self._connection.transaction_bytes -= self.published_bytes
        self.published_bytes = self._cost = self._extra_cost = 0

    def rollback(self, channel: ChannelState) -> Job:
        """Drop publishes, and make settled deliveries outstanding again in the order of their tags, in steps.

        At the end of a channel this first completes a long settlement or rollback that is under way.
        """
        if self._steps is not None:
            yield from self._steps
        self._steps = self._rollback(channel)
        yield from self._steps
        self._steps = None

    def _rollback(self, channel: ChannelState) -> Job:
        self.forget_publishes()
        while self.publishes:
            del self.publishes[-SLICE:]
            yield SLICE
        if self.settlements:
            yield from channel.unacked.put_back(self.settlements)
