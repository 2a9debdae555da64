"""A migration from one broker to another: definitions first, then the links, which move messages until none is left.

The links at the target are the only state of a migration. So the command may be stopped or killed and started again,
and both brokers may restart meanwhile.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass

from warren.broker.ctl.errors import DATA, TIMEOUT, UNAVAILABLE, APIError, ExitError, Unreachable

from .brokers import Broker, QueueName, QueueState
from .movers import LINK_LIMIT, LinkState, Mover
from .plan import Plan, Target, plan
from .progress import Display, Progress, table, totals

LOOK_S = 2.0  # the time between two requests to both brokers
END_S, END_LOOK_S = 10.0, 0.1
# RabbitMQ reports the lengths of its queues every 5 s: empty queues must stay empty for longer than two reports.
SETTLE_S, SETTLE_WARREN_S = 12.0, 3.0
NO_ROOM_S = 20.0  # the time for which the target may refuse all links
REFUSALS = 100  # the maximum of objects that are left out one by one after the target has refused them


@dataclass(frozen=True)
class Options:
    """The options of the command line that concern what is migrated and when it ends."""

    vhosts: tuple[str, ...] = ()
    once: bool = False  # end when the queues are empty, although clients are still connected to the source
    leave_out: bool = False  # migrate even if the target cannot have everything
    links: int = 500  # the most queues that have a link at the same time
    timeout_s: float | None = None
    definitions_only: bool = False


class Migration:
    """A migration. `mover` makes the links at the target."""

    def __init__(self, source: Broker, target: Broker, mover: Mover, options: Options, display: Display) -> None:
        self._source = source
        self._target = target
        self._mover = mover
        self._options = options
        self._display = display
        self._progress: dict[QueueName, Progress] = {}
        self._counted: dict[QueueName, int] = {}  # the last count of each link or queue
        self._refused: set[QueueName] = set()
        self._room = options.links  # the known number of links that the target may run
        self._refused_since_s: float | None = None  # the time since which the target runs no link
        self._clients = 0  # connections at the source that are not our links
        self._began_s = time.monotonic()

    # Definitions

    def plan(self) -> Plan:
        """Make the plan, and let a Warren check it without an import. Raises ExitError (65)."""
        target = Target(self._target.product, self._target.exchange_types, self._target.user)
        made = plan(self._source.get("definitions"), target, self._options.vhosts)
        if self._target.is_warren:
            self._check(made)
        return made

    def _check(self, made: Plan) -> None:
        """Leave out the objects that the target refuses. Raises ExitError (65)."""
        for _ in range(REFUSALS):
            try:
                answer = self._target.post("warren", "check-definitions", body=made.document)
            except APIError as error:
                if error.status != 400:
                    raise
                if not made.leave_out(error.reason):
                    reason = " ".join(error.reason.split())
                    raise ExitError(DATA, f"the target refuses the definitions: {reason}") from None
            else:
                made.changes += answer["skipped"]
                return
        raise ExitError(DATA, f"the target refuses more than {REFUSALS} objects: {made.missing[-1]}")

    def compare(self, made: Plan) -> None:
        """Note in the plan which queues and exchanges exist at the target with other properties."""
        made.compare(*(self._target.declared(section) for section in ("queues", "exchanges")))

    def require(self, made: Plan) -> None:
        """Raise ExitError (65) if the target cannot have everything, unless the options accept that."""
        if made.missing and not self._options.leave_out:
            lines = "".join(f"\n  {line}" for line in made.missing)
            raise ExitError(DATA, f"the target cannot have these (--leave-out migrates the rest):{lines}")

    def import_definitions(self, made: Plan, again: bool) -> None:
        """Import the plan, or `again` only objects of clients: operators may have changed the rest at the target."""
        self._target.post("definitions", body=made.topology() if again else made.document)

    # Messages

    def move(self, made: Plan) -> None:
        """Move messages until the source is empty, and remove the links. Raises ExitError (75)."""
        known = set(made.queues)
        settle_s = SETTLE_WARREN_S if self._source.is_warren else SETTLE_S
        empty_since_s: float | None = None
        while True:
            try:
                new = self._look(known)
                if new:
                    known |= self._import_new(new)
                now_s = time.monotonic()
                empty_since_s = None if new or not self._is_empty() else empty_since_s or now_s
                if empty_since_s is not None and now_s - empty_since_s >= settle_s:
                    self.end()
                    return
            except (Unreachable, TimeoutError) as error:
                empty_since_s = None
                self._display.note(f"waiting for a broker: {error or 'no answer in time'}")
            except APIError as error:
                if error.status < 500:
                    raise
                self._display.note(f"waiting for a broker: {error.reason}")
            if self._options.timeout_s is not None and time.monotonic() - self._began_s >= self._options.timeout_s:
                raise ExitError(TIMEOUT, "the time is over; the links stay and continue: start again to go on")
            time.sleep(LOOK_S)

    def end(self) -> None:
        """Remove the links, and wait up to END_S until their connections are closed: they take messages until then."""
        self._mover.set(())
        until_s = time.monotonic() + END_S
        while any(self._mover.is_link(name) for _, name in self._source.connections()) and time.monotonic() < until_s:
            time.sleep(END_LOOK_S)

    def _look(self, known: set[QueueName]) -> set[QueueName]:
        """Look at both brokers, and make the links that are needed. Returns queues that are new at the source."""
        states = self._source.queues()
        chosen = {name: state for name, state in states.items() if name in known}
        state = self._mover.state()
        moving = {name: link for name, link in state.items() if not link.refused}
        self._update(chosen, moving)
        self._measure_room(len(moving), len(state))
        linked = self._mover.queues() - (state.keys() - moving.keys())
        wanted = choose(self._progress, linked, self._room)
        self._mover.set(wanted)
        vhosts = self._options.vhosts
        names = [name for vhost, name in self._source.connections() if not vhosts or vhost in vhosts or not vhost]
        self._clients = sum(not self._mover.is_link(name) for name in names)
        rows = list(self._progress.values())
        self._display.show(rows, totals(rows, self._clients, time.monotonic() - self._began_s))
        others = states.keys() - known - self._refused
        return {name for name in others if may_be_new(states[name], name, vhosts)}

    def _measure_room(self, running: int, linked: int) -> None:
        """Set how many queues may have a link, fewer than asked for if the target refuses some.

        Empty queues then leave their links to others. Raises ExitError (69) if the target runs no link for long.
        """
        if running == linked:
            self._refused_since_s = None
            self._room = min(self._room + 1, self._options.links)  # the target may run more links by now
            return
        if self._room >= self._options.links:
            places = f"{running} of {linked} links ({LINK_LIMIT})"
            self._display.note(f"the target has places for {places}: queues take turns")
        self._room = max(running, 1)
        now_s = time.monotonic()
        self._refused_since_s = None if running else self._refused_since_s or now_s
        if self._refused_since_s is not None and now_s - self._refused_since_s >= NO_ROOM_S:
            reason = f"{LINK_LIMIT} is reached there: raise it, or have fewer links of policies, and start again"
            raise ExitError(UNAVAILABLE, f"the target runs none of the links: {reason}")

    def _import_new(self, new: set[QueueName]) -> set[QueueName]:
        """Import new queues that clients have declared at the source. Returns the queues that the target has now."""
        made = self.plan()
        self._refused |= new - set(made.queues)
        self.import_definitions(made, again=True)
        return new & set(made.queues)

    def _update(self, states: dict[QueueName, QueueState], moving: dict[QueueName, LinkState]) -> None:
        for name in [name for name in self._progress if name not in states]:  # deleted at the source
            self._progress[name].ready = self._progress[name].unacked = 0
        for name, state in states.items():
            row = self._progress.setdefault(name, Progress(name))
            link = moving.get(name)
            row.ready, row.unacked = state.ready, state.unacked
            row.has_link = link is not None
            row.problem = link.problem if link is not None and row.left else ""
            self._count(row, state, link)

    def _count(self, row: Progress, state: QueueState, link: LinkState | None) -> None:
        """Add to the moved messages. A count begins again at 0 with a new link or a restarted broker."""
        if link is not None and link.moved is not None:
            count, before = link.moved, self._counted.get(row.name, 0)
        else:
            count, before = state.acked, self._counted.get(row.name, state.acked)
        row.moved += count - before if count >= before else count
        self._counted[row.name] = count
        if link is not None:
            row.unacked = max(row.unacked, link.unconfirmed)

    def _is_empty(self) -> bool:
        """Return whether no message is left, no link is at work, and no client could publish or requeue one."""
        if any(row.left for row in self._progress.values()):
            return False
        if self._options.once:
            return True
        vhosts = {name.vhost for name in self._progress}
        return not self._clients and not self._source.delayed(vhosts)

    def summary(self) -> list[str]:
        rows = [row for row in self._progress.values() if row.moved or row.left]
        everything = list(self._progress.values())
        return [*(table(rows) if rows else []), totals(everything, self._clients, time.monotonic() - self._began_s)]


def choose(progress: dict[QueueName, Progress], linked: Collection[QueueName], limit: int) -> list[QueueName]:
    """Return the queues to have a link: all of them, or those with messages first, and of these the linked ones."""
    if len(progress) <= limit:
        return list(progress)
    order = sorted(progress.values(), key=lambda row: (not row.left, row.name not in linked, -row.left))
    return [row.name for row in order[:limit]]


def may_be_new(state: QueueState, name: QueueName, vhosts: Collection[str]) -> bool:
    """Return whether a queue at the source outlives its clients and belongs to a migrated virtual host."""
    temporary = state.fields.get("exclusive") or state.fields.get("auto_delete")
    return not temporary and (not vhosts or name.vhost in vhosts)
