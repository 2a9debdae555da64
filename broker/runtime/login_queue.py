"""The queue of passwords that wait to be verified: which is next, and which is dropped if too many wait.

Checks are in groups: by network, in each network by source address, and for each source by user name. The groups of
each level take turns, so that many checks in one group delay those of another by one turn each. Sources with an earlier
success precede, and groups with recent failures follow the others, except in every fourth turn. If too many checks
wait, one of a group with failures is dropped first, then one of the largest group. So an accepted check is verified in
bounded time unless its group fails, and a group without failures is refused only if that many checks of other such
groups wait.

The dropped check of a name from one source is chosen at random. If it were always the newest, an attacker at the same
address who keeps the group full of wrong passwords would keep out the right one for ever.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .source_address import network_of, source_of

# Waiting checks: they take seven seconds, or nine if groups with failures have every fourth turn; a handshake has ten.
PENDING_LIMIT = 192
SOURCE_LIMIT = 64  # of these, from one source: six seconds with the delay after many failures
NAME_LIMIT = 16  # of these, for one name
NAME_LENGTH = 255  # characters of a name in a path; RabbitMQ's names are no longer
FREE_FAILURES = 10  # wrong passwords for one name from one source, until each further one delays the next check,
SOURCE_FREE_FAILURES = 30  # and for all names from that source
FAILED_DELAY_S = 0.1
FORGIVEN_S = 300.0  # until one failure is forgotten
MOST_FAILURES = 60  # counted of one group: forgotten after five hours
FAILURES_LIMIT = 32_768  # groups with failures; the thread can add some 10,000 in FORGIVEN_S
FAILED_TURN = 4  # every fourth turn goes by waiting time alone
OPERATORS = "operators"  # in place of a network, for new hashes; they are never dropped
SOURCES_LIMIT = 4096  # sources with an earlier success
KNOWN, UNKNOWN, SUSPECT, FAILED = range(4)  # trust in a group, in falling order

Path = tuple[str, ...]  # network, source, name; the path of a group is a prefix of its checks' paths


@dataclass(slots=True, eq=False)
class Check:
    """One password to verify or to hash. Checks with equal `question` have the same result."""

    path: Path
    question: bytes
    work: Callable[[], bytes | bool]
    waiting: list[Callable[[bool | None], None]] = field(default_factory=list)


class Failures:
    """The failures of one group: a count that falls by one every FORGIVEN_S. No check is made before `due_s`."""

    def __init__(self) -> None:
        self._count = 0.0
        self._at_s = 0.0
        self.due_s = 0.0

    def count(self, now_s: float) -> float:
        return max(0.0, self._count - (now_s - self._at_s) / FORGIVEN_S)

    def add(self, now_s: float, free: float) -> None:
        self._count = min(self.count(now_s) + 1.0, MOST_FAILURES)
        self._at_s = now_s
        if self._count > free:
            self.due_s = now_s + FAILED_DELAY_S


@dataclass(slots=True, eq=False)
class Group:
    """Waiting checks of one path: `groups` of the next level in the order of their turns, or `checks` of a name by age.

    `trust` is a larger number for less trust; a network has that of its best source, or less if another one failed.
    """

    path: Path
    groups: dict[str, Group] = field(default_factory=dict)
    checks: deque[Check] = field(default_factory=deque)
    count: int = 0
    trust: int = UNKNOWN


class LoginQueue:
    """All waiting checks, and the failures of their groups."""

    def __init__(self) -> None:
        self._root = Group(())
        self._failures: dict[Path, Failures] = {}
        self._known: OrderedDict[Path, None] = OrderedDict()  # sources with a success
        self._turns = 0

    def __len__(self) -> int:
        return self._root.count

    # Adding and removing

    def add(self, check: Check, now_s: float) -> Check | None:
        """Add a check, and return the one that is dropped for it, which may be the same, or None."""
        groups = [self._root]
        for depth, key in enumerate(check.path):
            group = groups[-1].groups.get(key)
            if group is None:
                group = groups[-1].groups[key] = Group(check.path[: depth + 1])
            groups.append(group)
        groups[-1].checks.append(check)
        for group in groups:
            group.count += 1
        self._look(groups, now_s)
        if check.path[0] == OPERATORS:
            return None
        root, _, source, name = groups
        operators = root.groups.get(OPERATORS)
        logins = root.count - (operators.count if operators is not None else 0)
        for group, count, limit in (
            (name, name.count, NAME_LIMIT),
            (source, source.count, SOURCE_LIMIT),
            (root, logins, PENDING_LIMIT),
        ):
            if count > limit:
                dropped = check_to_drop(group)
                self.remove(dropped, now_s)
                return dropped
        return None

    def remove(self, check: Check, now_s: float) -> bool:
        """Remove a check; return False if it does not wait any more."""
        groups = self._groups(check.path)
        if len(groups) <= len(check.path) or check not in groups[-1].checks:
            return False
        groups[-1].checks.remove(check)
        self._shrink(groups, now_s)
        return True

    def _groups(self, path: Path) -> list[Group]:
        """Return the existing groups of a path, from the root on."""
        groups = [self._root]
        for key in path:
            group = groups[-1].groups.get(key)
            if group is None:
                break
            groups.append(group)
        return groups

    def _shrink(self, groups: list[Group], now_s: float) -> None:
        """Count one check less in the groups of one path."""
        for group in groups:
            group.count -= 1
        for parent, group, key in zip(groups, groups[1:], groups[-1].path, strict=False):
            if not group.count:
                del parent.groups[key]
                break
        if len(groups) > 1:
            self._look(groups[1:2], now_s)

    # Turns

    def take(self, now_s: float) -> Check | None:
        """Remove and return the check whose turn it is, or None if none is due."""
        self._turns += 1
        in_order = self._turns % FAILED_TURN == 0
        groups = [self._root]
        while not groups[-1].checks:
            ready = [group for group in groups[-1].groups.values() if self._due_s(group) <= now_s]
            if not ready:
                return None
            groups.append(ready[0] if in_order else min(ready, key=lambda group: group.trust))
        check = groups[-1].checks.popleft()
        for parent, key in zip(groups, check.path, strict=False):
            parent.groups[key] = parent.groups.pop(key)  # last in the next round
        self._shrink(groups, now_s)
        return check

    def wait_s(self, now_s: float) -> float:
        """Return the time until a check is due."""
        return max(0.0, self._due_s(self._root) - now_s)

    def _due_s(self, group: Group) -> float:
        """Return the time at which the first check of a group may be made."""
        failures = self._failures.get(group.path)
        own_s = failures.due_s if failures is not None else 0.0
        return max(own_s, min((self._due_s(one) for one in group.groups.values()), default=0.0))

    # Trust

    def failed(self, path: Path, now_s: float) -> None:
        """Count a wrong password in the groups of the path."""
        for depth, free in ((1, float(MOST_FAILURES)), (2, SOURCE_FREE_FAILURES), (3, FREE_FAILURES)):
            failures = self._failures.get(path[:depth])
            if failures is None:
                self._forget(now_s)
                failures = self._failures[path[:depth]] = Failures()
            failures.add(now_s, free)
        self._look(self._groups(path), now_s)

    def succeeded(self, path: Path) -> None:
        """Trust the source of a right password, and forget the failures for the same name."""
        self._failures.pop(path, None)
        self._known[path[:2]] = None
        self._known.move_to_end(path[:2])
        if len(self._known) > SOURCES_LIMIT:
            self._known.popitem(last=False)

    def _forget(self, now_s: float) -> None:
        """Make room for one more group with failures: forget the half with the fewest if there are too many."""
        if len(self._failures) < FAILURES_LIMIT:
            return
        counts = {path: failures.count(now_s) for path, failures in self._failures.items()}
        for path in sorted(counts, key=lambda path: counts[path])[: FAILURES_LIMIT // 2]:
            del self._failures[path]

    def _look(self, groups: list[Group], now_s: float) -> None:
        """Update the trust in the groups of one path."""
        for group in reversed(groups):
            failures = self._failures.get(group.path)
            failed = failures is not None and failures.count(now_s) > 0
            if len(group.path) == 1:
                best = min((one.trust for one in group.groups.values()), default=FAILED)
                group.trust = SUSPECT if failed and best == UNKNOWN else best
            elif group.path in self._known:
                group.trust = UNKNOWN if failed else KNOWN
            else:
                group.trust = FAILED if failed else UNKNOWN


def check_to_drop(group: Group) -> Check:
    """Return the check to drop: any of the least trusted group, among equals of the largest."""
    while not group.checks:
        others = [one for key, one in group.groups.items() if key != OPERATORS]
        group = max(reversed(others), key=lambda one: (one.trust, one.count))
    return random.choice(group.checks)


def path_of(address: str, name: str) -> Path:
    """Return the path of a login: network and source of the address, and the user's name."""
    source = source_of(address)
    return network_of(source), source, name[:NAME_LENGTH]
