"""The promises to clients: each confirmed message reaches every queue that it is for, as often as its links allow.

A message that is published to an exchange has a copy in the queue of each broker that links lead to; one in a federated
queue is a single copy, wherever it is. A copy is certain once its publish is confirmed, unless a link that it takes may
lose it (its ack mode and what has happened say so), or somebody has deleted on its way what it needs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Copy:
    """A copy of a message, in a queue or on its way there.

    place      the queue, with its broker if it is not federated
    origin     the connection that has published it, and its number there
    links      that it takes, as (upstream, downstream)
    certain    it must be consumed
    unmarked   deliveries that were not marked as repeated
    returned   the next delivery is a redelivery: it was requeued
    settled    a consumer has acknowledged or rejected it
    consumed   that has happened at least once
    sure       the broker that had it has stored that
    due_s      it must not be delivered before
    properties that it is published with
    """

    place: str
    number: int
    body: bytes
    origin: tuple[int, int]
    links: tuple[tuple[str, str], ...] = ()
    confirmed: bool = False
    certain: bool = True
    delivered: int = 0
    unmarked: int = 0
    returned: bool = False
    settled: bool = False
    consumed: bool = False
    sure: bool = False
    priority: int = 0
    due_s: float = 0.0
    properties: dict[str, Any] = field(default_factory=lambda: {"delivery_mode": 2})


@dataclass
class Model:
    """All copies, by place and number of the message.

    unmarked     the beginnings of places in which a redelivery may lose its mark: messages are dead-lettered there, or
                 links bring them back to where they were
    again        the beginnings of places whose dead letters may come again after a fault, as other messages: they are
                 dead-lettered at least once, or a write of the log was torn
    faults       something has broken: deliveries may be repeated, but are marked so
    repeated     deliveries of copies that were surely consumed
    bodies       the number of messages so far
    disturbed    links that may not have all that they need at their upstream
    deleted      places whose queue was deleted, and when, until all links have bound it again
    uncertain    links that may have lost messages
    """

    unmarked: tuple[str, ...]
    again: tuple[str, ...] = ()
    faults: bool = False
    uncertain: set[tuple[str, str]] = field(default_factory=set)
    disturbed: set[tuple[str, str]] = field(default_factory=set)
    deleted: dict[str, float] = field(default_factory=dict)
    copies: dict[tuple[str, int], Copy] = field(default_factory=dict)
    bodies: int = 0
    repeated: int = 0

    def add(self, copy: Copy) -> None:
        copy.certain = not self.disturbed.intersection(copy.links) and copy.place not in self.deleted
        self.copies[copy.place, copy.number] = copy

    def confirm(self, copies: Iterable[Copy]) -> None:
        for copy in copies:
            copy.confirmed = True

    def disturb(self, link: tuple[str, str]) -> None:
        """Something that a link needs is deleted: what is on its way may be lost, until the link is complete again."""
        self.disturbed.add(link)
        self._doubt(lambda copy: link in copy.links)

    def delete(self, place: str, now_s: float) -> None:
        """The queue of this place is deleted."""
        self.deleted[place] = now_s
        self._doubt(lambda copy: copy.place == place)

    def settle(self, copy: Copy) -> None:
        copy.settled = copy.consumed = True

    def _doubt(self, concerns: Callable[[Copy], bool]) -> None:
        for copy in self.copies.values():
            if not copy.consumed and concerns(copy):
                copy.certain = False

    def find(self, place: str, number: int, body: bytes) -> Copy:
        """Return the copy that is delivered."""
        copy = self.copies.get((place, number))
        assert copy is not None, f"message {number} of {place} was never published"
        assert copy.body == body, f"message {number} of {place} has another body"
        return copy

    def deliver(self, place: str, number: int, body: bytes, redelivered: bool) -> Copy:
        """Check and record a delivery; `redelivered` is the mark of the broker, or of a link on the way."""
        copy, name = self.find(place, number, body), f"message {number} of {place}"
        again = copy.delivered > 0 and not copy.returned
        moves = place.startswith(self.unmarked)
        if not self.faults:
            assert not again, f"{name} is delivered twice"
            assert redelivered == copy.returned or moves and not redelivered, f"{name}: redelivered is {redelivered}"
        elif again:
            assert redelivered or moves or not copy.unmarked, f"{name} is delivered again without a mark"
            assert copy.links or not copy.sure or self.comes_again(copy), f"{name} is delivered after it was consumed"
        if copy.sure:
            self.repeated += 1
        copy.delivered += 1
        copy.unmarked += not redelivered
        copy.returned = copy.settled = copy.sure = False
        return copy

    def comes_again(self, copy: Copy) -> bool:
        """Return whether a fault may have made another message of this one, by dead-lettering it again."""
        return self.faults and copy.place.startswith(self.again)

    def lost(self) -> list[Copy]:
        """Return the copies that were never consumed, though they had to be."""
        return [
            copy
            for copy in self.copies.values()
            if copy.confirmed and copy.certain and not copy.consumed and not self.uncertain.intersection(copy.links)
        ]
