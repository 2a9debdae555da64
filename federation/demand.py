"""Whether a queue link is to take messages from its upstream (spec/federation.md 8.2); pure, time is handed in.

It is when the queue here is empty and an active consumer of priority 0 or more could take a message. A consumer with a
prefetch of 1 stops to be active with each message, so what is not wanted any more is not given up at once: the link
goes on consuming for LINGER_MS, but `holding`, in which it must acknowledge nothing upstream, so that no more comes
than the prefetch has room for. Thus it consumes and cancels three times a second at most, and takes at the pace of its
consumers. Where nobody is left who could ever want more it gives up at once: two queues that federate each other would
hand to and fro what they have.

    paused  -- wanted -->  running  <-- wanted again --  holding  -- LINGER_MS -->  paused
                              `------- not wanted ---------^
"""

from __future__ import annotations

from typing import Literal

LINGER_MS = 300
LEAST_PULL = 10  # so that the way to the upstream and back does not count for each message

Step = Literal["run", "pause"]


class Demand:
    """`running`: the upstream is consumed from. `reason` says why it wants nothing, empty while it does.
    `look_at_ms` is when to look again though nothing happens; None where there is no need."""

    __slots__ = ("running", "wants", "reason", "look_at_ms")

    def __init__(self) -> None:
        self.running = self.wants = False
        self.reason = ""
        self.look_at_ms: int | None = None

    def disconnected(self) -> None:
        """There is no consumer upstream any more; the next look begins anew."""
        self.running = self.wants = False
        self.look_at_ms = None

    @property
    def holding(self) -> bool:
        """Whether nothing is to be acknowledged upstream: more would come than anybody here wants."""
        return self.running and not self.wants

    def look(self, now_ms: int, ready: int, priority: int | None, room: int | None = None) -> Step | None:
        """What to do now. `priority` is the highest of active consumers, None where nobody is; `room` how many messages
        consumers have room for, None where that is not known, 0 where nobody will ever want one; `ready` how many wait
        in the queue here."""
        self.reason = refusal(ready, priority, room)
        self.wants = not self.reason
        if self.wants:
            self.look_at_ms = None
            if self.running:
                return None
            self.running = True
            return "run"
        if not self.running:
            return None
        if self.look_at_ms is None:
            self.look_at_ms = now_ms + LINGER_MS
        if room != 0 and now_ms < self.look_at_ms:
            return None
        self.running = False
        self.look_at_ms = None
        return "pause"


def refusal(ready: int, priority: int | None, room: int | None) -> str:
    """Why nothing more is wanted here; empty where it is."""
    if ready:
        return "messages wait in the queue here"
    if priority is None or room == 0:
        return "no consumer here can take more"
    return "only consumers of a negative priority here" if priority < 0 else ""


def pull(prefetch_count: int, room: int | None) -> int:
    """The prefetch to consume with: about what consumers here have room for, as others may want the rest. 0 is none."""
    if room is None:
        return prefetch_count
    wanted = max(2 * room, LEAST_PULL)
    return min(wanted, prefetch_count) if prefetch_count else wanted
