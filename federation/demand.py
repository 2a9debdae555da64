"""The demand of a queue link: when it consumes from its upstream; pure, the time is a parameter.

There is demand if the local queue is empty and an active consumer of priority 0 or more can take a message. A consumer
with a prefetch of 1 is inactive after each message, so the link does not cancel as soon as demand ends: for LINGER_MS
it is `holding`, and acknowledges nothing upstream, so that it receives no more than its prefetch. Thus the link starts
to consume and cancels at most three times a second, and receives at the rate of its consumers. It cancels at once if
no consumer can ever take more, or if the upstream awaits no acknowledgements (no-ack) and would continue to deliver:
otherwise two queues that federate each other would exchange the same messages for ever.

    paused  -- demand -->  running  <-- demand again --  holding  -- LINGER_MS -->  paused
                              `------- no demand ----------^
"""

from typing import Literal

LINGER_MS = 300
PREFETCH_MAX = 65_535  # the largest value in basic.qos
MIN_PREFETCH = 10  # enough that not every message waits for a round trip to the upstream

Step = Literal["run", "pause"]


class Demand:
    """The state of demand. `running`: the link is to consume; `wants`: there is demand; `reason`: why there is none.

    `check_at_ms` is the time at which `update` has to be called even without an event, or None. `linger_ms` is the time
    for which it is `holding`.
    """

    def __init__(self, linger_ms: int = LINGER_MS) -> None:
        self._linger_ms = linger_ms
        self.running = self.wants = False
        self.reason = ""
        self.check_at_ms: int | None = None

    def reset(self) -> None:
        """Forget the consumer upstream, which was lost with its connection."""
        self.running = self.wants = False
        self.check_at_ms = None

    def update(self, now_ms: int, ready: int, priority: int | None, room: int | None = None) -> Step | None:
        """Evaluate demand. Returns "run" to start consuming, "pause" to cancel, or None.

        `ready` is the number of ready messages in the local queue; `priority` is the highest of its active consumers,
        or None without any; `room` is the number of messages that they can take at most, 0 if they never will, or None
        if it is unknown.
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
            self.check_at_ms = now_ms + self._linger_ms
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
    """Return the prefetch to consume with, about twice what local consumers can take.

    A `prefetch_count` of 0, no limit, allows the largest value of basic.qos.
    """
    if room is None:
        return prefetch_count
    wanted = max(2 * room, MIN_PREFETCH)
    return min(wanted, prefetch_count or PREFETCH_MAX)
