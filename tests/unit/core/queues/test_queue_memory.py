"""The memory of a queue without messages."""

import tracemalloc

from tests.support.queues import new_queue
from warren.broker.core.queues.queue import Queue

COUNT = 200


def test_a_queue_takes_few_bytes_of_memory() -> None:
    """The memory was once 5,300 bytes, most of them for the empty deques of dead letters and messages."""
    host = new_queue().host
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    queues = [Queue(host, f"q{number}", number=number) for number in range(1, COUNT)]
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 3_500 * len(queues)
