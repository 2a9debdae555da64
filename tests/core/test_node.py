"""The node: what all queues share."""

import pytest

from broker.core.message import Address, framed
from broker.core.node import Node
from broker.core.ports import Consumer
from broker.core.users import Users
from broker.properties import Properties
from broker.storage.memory import MemoryJournal
from broker.table import Table
from tests.support.clock import FakeClock


class Greedy(Consumer):
    """Takes everything; fails when told to."""

    taken = 0
    fails = False

    def room(self, body_bytes: int) -> int:
        return 1000

    def deliver(self, messages, position, step, redelivered) -> None:  # type: ignore[no-untyped-def]
        if self.fails:
            raise KeyError("a bug")
        self.taken += len(messages)


def test_a_delivery_that_fails_leaves_the_other_queues_in_line() -> None:
    node = Node("n", "n", FakeClock(), MemoryJournal(), Users(frozenset()))
    vhost = node.add_vhost("/")
    consumers = []
    for name in ("one", "two"):
        queue = vhost.declare_queue(name, False, False, False, Table.EMPTY, None)
        consumers.append(Greedy(name, queue, object(), True, False, 0))
        queue.add_consumer(consumers[-1])
    node.pump()
    consumers[0].fails = True
    for queue in vhost.queues.values():
        queue.push([framed(Address("", queue.name), Properties(), b"body")], 4)
    with pytest.raises(KeyError):
        node.pump()
    node.pump()
    assert consumers[1].taken == 1
