"""The status and counters of a link, as operators see them, without secrets."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .link_spec import LinkSpec

STARTING, RUNNING, ERROR, INVALID_URI = "starting", "running", "error", "invalid_upstream_uri"
FLOWING, PAUSED, BLOCKED = "flowing", "paused", "blocked"


# The attributes that operators see under their own names
SHOWN = (
    *("since_s", "retries", "reconnects", "next_attempt_s", "backlog", "lag_ms", "forwarded", "confirmed"),
    *("unconfirmed", "dropped_max_hops", "dropped_seen", "dropped_invalid", "nacked", "bindings"),
)


@dataclass(slots=True, eq=False)
class LinkStatus:
    """The status of a link. Times are wall time, in seconds.

    `forwarded` counts messages published locally, `confirmed` those of them that are safe; `retries` counts attempts
    since the link last ran, `reconnects` how often it ran and failed. `degraded` is the reason why a running link does
    not work as expected, or empty. `cluster_name` and `vhost` are the upstream's at its last connection, or empty.
    `changed` is called after each change of `status`.
    """

    now_s: Callable[[], float]
    changed: Callable[[], None]
    status: str = STARTING
    error: str = ""
    uri: str = ""
    connection: str = ""
    changed_s: float = field(init=False)
    state: str = ""
    reason: str = ""
    degraded: str = ""
    cluster_name: str = ""
    vhost: str = ""
    since_s: float = field(init=False)
    retries: int = 0
    reconnects: int = 0
    next_attempt_s: float | None = None
    backlog: int | None = None
    lag_ms: int | None = None
    forwarded: int = 0
    confirmed: int = 0
    unconfirmed: int = 0
    dropped_max_hops: int = 0
    dropped_seen: int = 0
    dropped_invalid: int = 0
    nacked: int = 0
    bindings: int = 0

    def __post_init__(self) -> None:
        self.changed_s = self.since_s = self.now_s()

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
        self.changed_s = self.now_s()
        self.changed()

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
                self.since_s = self.now_s()
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
            **{name: getattr(self, name) for name in SHOWN},
        }
