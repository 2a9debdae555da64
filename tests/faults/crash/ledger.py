"""The ledger: bodies published, confirmed, delivered and acknowledged by queue, and the check of a restarted broker."""

import re
from collections import Counter

from tests.support.amqp_client import Content


class Ledger:
    """Bodies by queue; each body is published once. Written by many threads: a set's own `add` needs no lock.

    acked         an acknowledgement was sent, or was about to be
    surely_acked  and something that the broker does after it was confirmed
    """

    def __init__(self, queues: list[str]) -> None:
        self.queues = queues
        self.published: dict[str, set[bytes]] = {queue: set() for queue in queues}
        self.transient: dict[str, set[bytes]] = {queue: set() for queue in queues}
        self.confirmed: dict[str, set[bytes]] = {queue: set() for queue in queues}
        self.delivered: dict[str, set[bytes]] = {queue: set() for queue in queues}
        self.acked: dict[str, set[bytes]] = {queue: set() for queue in queues}
        self.surely_acked: dict[str, set[bytes]] = {queue: set() for queue in queues}
        self.duplicates = 0
        self.unflagged = 0

    def count(self, kind: str) -> int:
        sets: dict[str, set[bytes]] = getattr(self, kind)
        return sum(map(len, sets.values()))

    def check(self, queue: str, came: list[Content]) -> None:
        """Check the contents of a queue after a restart."""
        bodies = [content.body for content in came]
        there = set(bodies)
        twice = [body for body, times in Counter(bodies).items() if times > 1]
        lost = self.confirmed[queue] - self.acked[queue] - there
        back = there & self.surely_acked[queue]
        unexpected = there - self.published[queue]
        kept = there & self.transient[queue]
        for what, found in (("lost", lost), ("unexpected", unexpected), ("acknowledged and back", back),
                            ("transient and back", kept), ("twice in the queue", twice)):  # fmt: skip
            assert not found, f"{queue}: {len(found)} {what}, such as {sorted(found)[0][:60]!r}"
        _check_order(queue, bodies)
        again = [content for content in came if content.body in self.delivered[queue]]
        self.duplicates += len(again)
        self.unflagged += sum(not content.redelivered for content in again)


def _check_order(queue: str, bodies: list[bytes]) -> None:
    """Check that the messages of each publisher are in the order in which it published them."""
    last: dict[bytes, int] = {}
    for body in bodies:
        match = re.match(rb"(\d+ \d+) (\d+) ", body)
        assert match, f"{queue}: no body of ours: {body[:60]!r}"
        publisher, number = match[1], int(match[2])
        assert number > last.get(publisher, -1), f"{queue}: {body[:60]!r} is after number {last[publisher]}"
        last[publisher] = number
