"""Policies and operator policies: which of them apply to each exchange and queue, and their changes.

At most one policy and one operator policy apply to an object: those of the highest priority, and of several with equal
priority the one with the lowest name. They are stored as parameters of two components, which only this class sets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from ...amqp.errors import Invalid, PreconditionFailed
from ...amqp.field_table import TERM_LENGTH
from ..exchanges.exchange import Exchange
from ..jobs.scheduler import Job
from ..messages.clock import Clock
from ..metadata.patterns import Pattern, SearchTime
from ..metadata.policy import APPLY_TO, Definition, Policy
from ..metadata.validation import Rule, as_integer, integer, shape_errors, term
from ..queues.queue import Queue
from ..queues.queue_settings import NO_POLICY
from ..vhost.node_services import TopologyPolicies
from ..vhost.observer import Observers
from ..vhost.vhost import CheckNew, VHost, allow_new
from .parameters import POLICY, Component, Parameters
from .policy_keys import definition_lines, merge_definitions

OPERATOR_POLICY = "operator_policy"
PATTERN_COST = 6  # of searching the pattern of a policy (`scheduler`)
STEP_COST, LOOK_COST, APPLY_COST = 300, 2, 10  # of a step of a job, and of a queue or exchange in it (`scheduler`)
SKIPPED = 2  # policies that are for other kinds of objects, skipped at a cost of 1 (`scheduler`)
LISTED = 16  # queues and exchanges that are listed at a cost of 1 (`scheduler`)
POLICIES_LIMIT = 1_000  # of one virtual host: each declaration searches all their patterns


class PolicyComponent(Component):
    """The component that stores policies as parameters: pattern, definition, priority, apply-to."""

    __slots__ = ("operator", "ranked", "named", "unknown", "_policies")

    def __init__(self, name: str, policies: Policies) -> None:
        super().__init__(name)
        self.operator = name == OPERATOR_POLICY
        self.ranked: dict[str, list[Policy]] = {}  # policies by virtual host, the highest priority first
        self.named: dict[tuple[str, str], Policy] = {}  # policies by virtual host and name
        self.unknown: dict[str, set[str]] = {}  # by virtual host, the names of policies that could not be restored
        self._policies = policies

    def validate(self, name: str, value: object) -> list[str]:
        rules: dict[str, Rule] = {"priority": integer, "pattern": pattern, "apply-to": apply_to, "definition": no_rule}
        lines = shape_errors(name, value, rules, ("priority", "pattern", "definition"))
        if isinstance(value, dict) and "definition" in value:
            lines += definition_lines(value["definition"], self.operator)
        return lines

    def check_new(self, vhost: str, planned: int) -> list[str]:
        if len(self.ranked.get(vhost, ())) + planned < POLICIES_LIMIT:
            return []
        return [f"virtual host '{vhost}' may have {POLICIES_LIMIT} {'operator ' if self.operator else ''}policies"]

    def not_restored(self, vhost: str, name: str) -> None:
        self.unknown.setdefault(vhost, set()).add(name)

    def changed(self, vhost: str, name: str, value: object) -> None:
        self.unknown.get(vhost, set()).discard(name)
        ranked = self.ranked.setdefault(vhost, [])
        old = self.named.pop((vhost, name), None)
        if old is not None:
            del ranked[bisect_left(ranked, rank(old), key=rank)]
        new = policy_of(vhost, name, value) if isinstance(value, dict) else None
        if new is not None:
            self.named[vhost, name] = new
            insort(ranked, new, key=rank)
        if not ranked:
            del self.ranked[vhost]
        self._policies.changed(vhost, old, new)

    def best(self, target: Queue | Exchange, searches: SearchTime) -> Policy | None:
        """Return the first policy that applies to the target, or None.

        An operator policy is a limit, so it also applies if searching the name takes too long.
        """
        for policy in self.ranked.get(target.vhost, ()):
            found = applies_to(policy, target, searches)
            if found or (found is None and self.operator):
                return policy
        return None


@dataclass(slots=True, eq=False)
class Changes:
    """The changes of the policies of a virtual host that its objects do not have yet. One job applies them.

    due  there were changes since the job began to look at all objects
    new  the new policies of these, without those that were deleted again
    """

    due: bool = False
    new: dict[Policy, None] = field(default_factory=dict)

    def add(self, old: Policy | None, new: Policy | None) -> None:
        self.due = True
        if old is not None:
            self.new.pop(old, None)
        if new is not None:
            self.new[new] = None

    def take(self) -> list[Policy]:
        """Return the new policies when the job begins to look at all objects."""
        new = list(self.new)
        self.due = False
        self.new.clear()
        return new


class Policies(TopologyPolicies):
    def __init__(self, parameters: Parameters, vhosts: dict[str, VHost], observers: Observers, clock: Clock) -> None:
        self._parameters = parameters
        self._vhosts = vhosts
        self._observers = observers
        self._clock = clock
        self._user = PolicyComponent(POLICY, self)
        self._operator = PolicyComponent(OPERATOR_POLICY, self)
        self._changes: dict[VHost, Changes] = {}
        self._merged: dict[tuple[Policy, Policy], Definition] = {}  # of a policy and an operator policy that both apply
        parameters.register(self._user)
        parameters.register(self._operator)

    # For operators

    def set(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: object,
        priority: object = 0,
        apply_to: str = "all",
        operator: bool = False,
        check_new: CheckNew = allow_new,
    ) -> bool:
        """Set a policy, apply it at once, and return whether it is new. Raises Invalid, Unknown."""
        value = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        return self._parameters.put(vhost, OPERATOR_POLICY if operator else POLICY, name, value, check_new)

    def clear(self, vhost: str, name: str, operator: bool = False) -> None:
        """Delete a policy, and apply those of lower priority at once. Raises Unknown."""
        self._parameters.drop(vhost, OPERATOR_POLICY if operator else POLICY, name)

    def get(self, vhost: str, name: str, operator: bool = False) -> Policy | None:
        return (self._operator if operator else self._user).named.get((vhost, name))

    def all(self, vhost: str | None = None, operator: bool = False) -> list[Policy]:
        """Return the policies by virtual host, the lowest priority first."""
        ranked = (self._operator if operator else self._user).ranked
        places = sorted(ranked) if vhost is None else [vhost]
        existing = [at for at in places if at in self._vhosts]  # without deleted ones
        return [policy for at in existing for policy in reversed(ranked.get(at, ()))]

    def matching(self, target: Queue | Exchange) -> list[Policy]:
        """Return all policies that match the target, the highest priority first."""
        searches = SearchTime(self._clock.processor_s)
        return [policy for policy in self._user.ranked.get(target.vhost, ()) if applies_to(policy, target, searches)]

    def cost(self, vhost: VHost) -> int:
        """The cost of searching the patterns of all policies for a new queue or exchange (`jobs.scheduler`)."""
        ranked = [each.ranked.get(vhost.name, ()) for each in (self._user, self._operator)]
        return PATTERN_COST * sum(map(len, ranked))

    # For the core

    def check_queue_name(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) if it cannot be determined whether operator policies apply to a new queue.

        That is the case if an operator policy could not be restored, or the search for its pattern takes too long.
        """
        refused = f"cannot declare queue '{name}' in vhost '{vhost}'"
        for policy_name in self._operator.unknown.get(vhost, ()):
            raise PreconditionFailed(
                f"{refused}: operator policy '{policy_name}' could not be restored at the start, so its limits are not "
                "known; it has to be set anew"
            )
        searches = SearchTime(self._clock.processor_s)
        for policy in self._operator.ranked.get(vhost, ()):
            if policy.search_times_out(name, searches):
                raise PreconditionFailed(
                    f"{refused}: matching its name with the pattern of operator policy '{policy.name}' takes too long"
                )

    def vhost_deleted(self, vhost: str) -> None:
        """Forget the policies of a deleted virtual host that could not be restored."""
        self._operator.unknown.pop(vhost, None)

    def apply(self, target: Queue | Exchange) -> bool:
        return self._apply(target, SearchTime(self._clock.processor_s))

    def _apply(self, target: Queue | Exchange, searches: SearchTime) -> bool:
        """Apply the current policies to the target. Return whether its policies have changed."""
        if isinstance(target, Queue):
            operator = self._operator.best(target, searches)
            policy = self._user.best(target, searches)
            if policy is target.policy and operator is target.operator_policy:
                return False
            target.configure(policy, operator, self._effective(policy, operator))
        else:
            policy = self._user.best(target, searches)
            if policy is target.policy:
                return False
            target.configure(policy, self._effective(policy, None))
        return True

    def _effective(self, policy: Policy | None, operator: Policy | None) -> Definition:
        """Return the merged definition, the same object for the same policies, by which queues share their settings."""
        if operator is None:
            return policy.definition if policy is not None else NO_POLICY
        if policy is None:
            return operator.definition
        known = self._merged.get((policy, operator))
        if known is None:
            known = self._merged[policy, operator] = merge_definitions(policy.definition, operator.definition)
        return known

    def changed(self, vhost: str, old: Policy | None, new: Policy | None) -> None:
        """Apply the changed policy to all queues and exchanges for which the old or the new one matters."""
        self._merged.clear()  # a deleted policy may be among them
        there = self._vhosts.get(vhost)
        if there is None:
            return
        known = self._changes.get(there)
        if known is not None:
            known.add(old, new)
            return  # its job begins again
        changes = self._changes[there] = Changes()
        changes.add(old, new)

        def failed() -> None:
            self._changes.pop(there, None)

        there.scheduler.start("change of a policy", self._apply_all(there, changes), failed)
        there.pump()  # messages beyond a new limit are dropped now

    def _apply_all(self, vhost: VHost, changes: Changes) -> Job:
        """Apply changed policies to many objects, as a job. Objects declared meanwhile have the new ones already."""
        while changes.due:
            new = changes.take()
            targets: list[Queue | Exchange] = [*vhost.queues.values(), *vhost.exchanges.values()]
            cost = len(targets) // LISTED
            while targets:
                target = targets.pop()
                if vhost.has(target):
                    cost += self._apply_change(vhost, target, new)
                cost += LOOK_COST + len(new) // SKIPPED
                if cost >= STEP_COST:
                    yield cost
                    cost = 0
        del self._changes[vhost]

    def _apply_change(self, vhost: VHost, target: Queue | Exchange, new: list[Policy]) -> int:
        """Apply the policies to an object if the new ones or the end of an old one matter for it; return the cost."""
        looks = SearchTime(self._clock.processor_s)
        if not self._is_stale(target) and not any(could_hold(one, target, looks) for one in new):
            return looks.cost
        searches = SearchTime(self._clock.processor_s)
        cost = 0
        if self._apply(target, searches):
            vhost.clear_route_cache()  # an alternate exchange may have changed
            for observer in self._observers:
                observer.policy_changed(target)
            cost = APPLY_COST
        return cost + self.cost(vhost) // PATTERN_COST // SKIPPED + looks.cost + searches.cost

    def _is_stale(self, target: Queue | Exchange) -> bool:
        """Whether the target has a policy that was replaced or deleted."""
        pairs = [(self._user, target.policy)]
        if isinstance(target, Queue):
            pairs.append((self._operator, target.operator_policy))
        return any(one is not None and each.named.get((one.vhost, one.name)) is not one for each, one in pairs)


def rank(policy: Policy) -> tuple[int, str]:
    return -policy.priority, policy.name


def applies_to(policy: Policy, target: Queue | Exchange, searches: SearchTime) -> bool | None:
    """Return whether the policy matches this queue or exchange; None if searching its name takes too long."""
    queue_type = target.settings.type if isinstance(target, Queue) else ""
    return policy.applies(target.kind, queue_type, target.name, searches)


def could_hold(policy: Policy, target: Queue | Exchange, searches: SearchTime) -> bool:
    return applies_to(policy, target, searches) is not False


def policy_of(vhost: str, name: str, value: dict[str, object]) -> Policy:
    """Return the policy with a validated value."""
    definition, text_ = value["definition"], value["pattern"]
    assert isinstance(definition, dict) and isinstance(text_, str)
    priority, apply_to_ = as_integer(value["priority"]) or 0, value.get("apply-to", "all")
    assert isinstance(apply_to_, str)
    return Policy(vhost, name, text_, definition, priority, apply_to_)


def no_rule(key: str, value: object) -> str:
    return ""


def pattern(key: str, value: object) -> str:
    if not isinstance(value, str):
        return f"{key} should be a binary but was {term(value)}"
    try:
        Pattern(value or ".*")
    except Invalid as error:
        return f"{key} should be regular expression but is invalid: {error.text}"
    return ""


def apply_to(key: str, value: object) -> str:
    if isinstance(value, str) and value in APPLY_TO:
        return ""
    *names, last = [f"'{name}'" for name in APPLY_TO]
    shown = value[:TERM_LENGTH] if isinstance(value, str) else term(value)
    return f"{key} '{shown}' unrecognised; should be one of: {', '.join(names)}, or {last}"
