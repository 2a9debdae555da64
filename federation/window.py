"""What a link has taken from its upstream and not yet settled there; pure.

Deliveries are taken in the order of their tags, published here, and safe once this broker's journal has reached a
ticket; tickets only grow. So all that is safe is a run from the oldest on, which one acknowledgement with `multiple`
covers. The walk of a batch:

    took(tag)                  for each delivery, also for one that is dropped here
    committed(ticket, refused) once, after the batch was published: its ticket, 0 where nothing has to be waited for,
                               and the tags that some queue would not have
    settled(durable)           whenever the journal has got further: the tag to acknowledge with `multiple`, 0 for none
    returning()                when what was refused is to go back: the tags to nack, one by one, with requeue

What was refused holds back the acknowledgement of all behind it until it is returned, as `multiple` would cover it. A
tag that is given is always one that is still out, since a broker closes the channel for any other. Tags are those of
one channel, which numbers its deliveries without a gap; `clear` when it is gone, and with it all that it had delivered.

Nothing here needs a limit: the upstream sends no more than the prefetch count beyond what is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Window:
    __slots__ = ("_taken", "_committed", "_settled", "_safe", "_batches", "_refused", "_returned")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """The channel is another one now."""
        self._taken = self._committed = 0  # the last tag of each
        self._settled = 0  # the last tag that was acknowledged; lower ones are, or went back
        self._safe = 0  # all up to this tag is, but for what was refused
        self._batches: deque[tuple[int, int]] = deque()  # last tag, and the ticket to wait for
        self._refused: list[int] = []  # in their order, to be returned
        self._returned: set[int] = set()  # beyond what is settled

    @property
    def outstanding(self) -> int:
        """How many deliveries are not settled."""
        return self._taken - self._settled - len(self._returned)

    @property
    def refusing(self) -> bool:
        """Whether anything has to go back."""
        return len(self._refused) > 0

    def took(self, tag: int) -> None:
        """The next delivery. The first one may have any tag."""
        if not self._taken:
            self._committed = self._settled = self._safe = tag - 1
        assert tag == self._taken + 1 or not self._taken, "a channel counts its deliveries"
        self._taken = tag

    def committed(self, ticket: int, refused: Iterable[int] = ()) -> None:
        """What was taken since the last call is published."""
        self._refused += refused
        if self._taken == self._committed:
            return
        self._committed = self._taken
        if self._batches and ticket <= self._batches[-1][1]:
            ticket = self._batches[-1][1]  # nothing to wait for but what is in front of it
            self._batches.pop()
        self._batches.append((self._taken, ticket))

    def settled(self, durable: int) -> int:
        """The tag up to which all can be acknowledged, where the journal has reached that ticket; 0 for no more."""
        batches = self._batches
        while batches and batches[0][1] <= durable:
            self._safe = batches.popleft()[0]
        tag = min(self._safe, self._refused[0] - 1) if self._refused else self._safe
        while tag in self._returned:
            tag -= 1
        if tag <= self._settled:
            return 0
        self._settled = tag
        if self._returned:
            self._returned = {other for other in self._returned if other > tag}
        return tag

    def returning(self) -> list[int]:
        """What was refused, to be sent back now: it is the upstream's again."""
        refused, self._refused = self._refused, []
        self._returned.update(refused)
        return refused
