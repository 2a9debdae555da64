"""The status and counters of a link, as operators see them, without secrets."""

from __future__ import annotations

from collections.abc import Callable

from .link_spec import LinkSpec

STARTING, RUNNING, ERROR, SHUTDOWN, INVALID_URI = "starting", "running", "error", "shutdown", "invalid_upstream_uri"
FLOWING, PAUSED, BLOCKED = "flowing", "paused", "blocked"


class LinkStatus:
    """The status of a link.

    `forwarded` counts messages published locally, `confirmed` those of them that are safe; `retries` counts attempts
    since the link last ran, `reconnects` how often it ran and failed. `degraded` is the reason why a running link does
    not work as expected, or empty. `cluster_name` and `vhost` are the upstream's at its last connection, or empty.
    Times are wall time, in seconds.
    """

    __slots__ = (
        "status",
        "error",
        "uri",
        "connection",
        "changed_s",
        "state",
        "reason",
        "degraded",
        "cluster_name",
        "vhost",
        "since_s",
        "retries",
        "reconnects",
        "next_attempt_s",
        "backlog",
        "lag_ms",
        "forwarded",
        "confirmed",
        "unconfirmed",
        "dropped_max_hops",
        "dropped_seen",
        "dropped_invalid",
        "nacked",
        "bindings",
        "_now_s",
        "_changed",
    )

    def __init__(self, now_s: Callable[[], float], changed: Callable[[], None]) -> None:
        """`changed` is called after each change of `status`."""
        self._now_s = now_s
        self._changed = changed
        self.status = STARTING
        self.error = self.uri = self.connection = self.state = self.reason = ""
        self.degraded = self.cluster_name = self.vhost = ""
        self.changed_s = self.since_s = now_s()
        self.next_attempt_s: float | None = None
        self.backlog: int | None = None
        self.lag_ms: int | None = None
        self.retries = self.reconnects = self.bindings = 0
        self.forwarded = self.confirmed = self.unconfirmed = self.nacked = 0
        self.dropped_max_hops = self.dropped_seen = self.dropped_invalid = 0

    def starting(self) -> None:
        self._change(STARTING)

    def running(self, connection: str) -> None:
        self.retries = 0
        self._change(RUNNING, connection=connection)

    def failed(self, status: str, error: str, next_attempt_s: float | None) -> None:
        """Note that the link is down. `next_attempt_s` is None if there will be no further attempt."""
        self.reconnects += self.status == RUNNING
        self.retries += 1
        self.unconfirmed = 0
        self._change(status, error, next_attempt_s=next_attempt_s)

    def _change(self, status: str, error: str = "", connection: str = "", next_attempt_s: float | None = None) -> None:
        self.status, self.error, self.connection, self.next_attempt_s = status, error, connection, next_attempt_s
        if status != RUNNING:  # the state of a running link is set by `flow`
            self.state = self.reason = self.degraded = ""
        self.changed_s = self._now_s()
        self._changed()

    def dropped(self, too_far: bool) -> None:
        """Count a dropped message: one that has made all its hops if `too_far`, otherwise a repeat."""
        if too_far:
            self.dropped_max_hops += 1
        else:
            self.dropped_seen += 1

    def degrade(self, reason: str) -> None:
        """Add a reason why the link is degraded; it applies until the link is down."""
        self.degraded = f"{self.degraded}; {reason}" if self.degraded else reason

    def flow(self, state: str, reason: str) -> None:
        """Set whether a running link moves messages, and why."""
        if (state, reason) != (self.state, self.reason):
            if state != self.state:
                self.since_s = self._now_s()
            self.state, self.reason = state, reason

    def row(self, spec: LinkSpec, node: str) -> dict[str, object]:
        key, settings = spec.key, spec.settings
        return {
            "vhost": key.vhost,
            "type": key.kind,
            "name": key.name,
            "upstream": key.upstream,
            "upstream_name": key.upstream_name,
            "consumer_tag": settings.consumer_tag if key.kind == "queue" else "",
            "id": key.id,
            "node": node,
            "policy": spec.policy,
            "status": self.status,
            "error": self.error,
            "uri": self.uri,
            "upstream_cluster_name": self.cluster_name,
            "upstream_vhost": self.vhost,
            "local_connection": self.connection,
            "changed_s": self.changed_s,
            "state": self.state,
            "reason": "; ".join([reason for reason in (self.reason, self.degraded) if reason]),
            "degraded": bool(self.degraded),
            "since_s": self.since_s,
            "retries": self.retries,
            "reconnects": self.reconnects,
            "next_attempt_s": self.next_attempt_s,
            "backlog": self.backlog,
            "lag_ms": self.lag_ms,
            "forwarded": self.forwarded,
            "confirmed": self.confirmed,
            "unconfirmed": self.unconfirmed,
            "dropped_max_hops": self.dropped_max_hops,
            "dropped_seen": self.dropped_seen,
            "dropped_invalid": self.dropped_invalid,
            "nacked": self.nacked,
            "bindings": self.bindings,
        }
