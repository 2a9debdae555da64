"""The demand of a queue link: when it consumes from its upstream; pure, the time is a parameter.

There is demand if the queue here is empty and an active consumer of priority 0 or more could take a message. A consumer
with a prefetch of 1 stops being active with each message, so the link does not cancel at once when demand ends: it goes
on for LINGER_MS, but `holding`, in which it must acknowledge nothing upstream, so that it gets no more than its
prefetch. So it starts to consume and cancels three times a second at most, and takes at the pace of its consumers. If
no consumer is left that could ever take more, it cancels at once: two queues that federate each other would else pass
the same messages to and fro.

    paused  -- demand -->  running  <-- demand again --  holding  -- LINGER_MS -->  paused
                              `------- no demand ----------^
"""

from __future__ import annotations

from typing import Literal

LINGER_MS = 300
MIN_PREFETCH = 10  # so that not each message waits for a round trip to the upstream

Step = Literal["run", "pause"]


class Demand:
    """The state of demand. `running`: the link is to consume; `wants`: there is demand; `reason`: why there is none.

    `check_at_ms` is the time of the next `update` though nothing happens, or None.
    """

    __slots__ = ("running", "wants", "reason", "check_at_ms")

    def __init__(self) -> None:
        self.running = self.wants = False
        self.reason = ""
        self.check_at_ms: int | None = None

    def reset(self) -> None:
        """Begin anew: the consumer upstream is lost with its connection."""
        self.running = self.wants = False
        self.check_at_ms = None

    @property
    def holding(self) -> bool:
        """Whether nothing may be acknowledged upstream, as the upstream would deliver more."""
        return self.running and not self.wants

    def update(self, now_ms: int, ready: int, priority: int | None, room: int | None = None) -> Step | None:
        """Evaluate demand. Returns what to do now: start to consume, cancel, or None.

        `ready` is the number of ready messages here; `priority` the highest of active consumers, or None without any;
        `room` the number of messages that consumers can take at most, 0 if none ever will, None if it is not known.
        """
        self.reason = no_demand_reason(ready, priority, room)
        self.wants = not self.reason
        if self.wants:
            self.check_at_ms = None
            if self.running:
                return None
            self.running = True
            return "run"
        if not self.running:
            return None
        if self.check_at_ms is None:
            self.check_at_ms = now_ms + LINGER_MS
        if room != 0 and now_ms < self.check_at_ms:
            return None
        self.running = False
        self.check_at_ms = None
        return "pause"


def no_demand_reason(ready: int, priority: int | None, room: int | None) -> str:
    """Return why there is no demand, or an empty string if there is."""
    if ready:
        return "messages wait in the queue here"
    if priority is None or room == 0:
        return "no consumer here can take more"
    return "only consumers of a negative priority here" if priority < 0 else ""


def prefetch_for(prefetch_count: int, room: int | None) -> int:
    """Return the prefetch to consume with, about what consumers here can take; 0 is no limit."""
    if room is None:
        return prefetch_count
    wanted = max(2 * room, MIN_PREFETCH)
    return min(wanted, prefetch_count) if prefetch_count else wanted
