"""The queue of passwords that wait to be verified: whose turn is next, and which is given up where too many wait.

Checks are in groups: by network, by source address in a network, by user name in a source. The groups of each level
take turns, so that many checks of one group delay those of another by one turn each. Sources that have had a right
password come first, and groups that failed lately last, but for each fourth turn. Where too many wait, the newest check
of a group that failed is given up first, then that of the group that has most. A check that is accepted is thus
verified in bounded time unless its group fails, and a group that has not failed is refused only while as many others
that have not failed wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from .source_address import network_of, source_of

# Checks that wait: seven seconds of them, or nine while groups that failed have every fourth turn; a handshake has ten.
PENDING_LIMIT = 192
SOURCE_LIMIT = 64  # of these, from one source: six seconds with the delay of one that fails often
NAME_LIMIT = 16  # of these, for one name
NAME_LENGTH = 255  # characters of a name that a group is known by; RabbitMQ's names are no longer
FREE_FAILURES = 10  # wrong passwords for one name from one source, until each of them delays the next check,
SOURCE_FREE_FAILURES = 30  # and for all names from that source
FAILED_DELAY_S = 0.1
FORGIVEN_S = 300.0  # until one failure is forgotten
MOST_FAILURES = 60  # that are remembered of one group: five hours
FAILURES_LIMIT = 32_768  # groups whose failures are remembered; a thread fails in some 10,000 until they are forgotten
FAILED_TURN = 4  # each fourth turn is whoever's has waited longest
OPERATORS = "operators"  # the network of new hashes, which is none; they are never given up
SOURCES_LIMIT = 4096  # from which a right password came lately
KNOWN, UNKNOWN, SUSPECT, FAILED = range(4)  # how much a group is trusted

Path = tuple[str, ...]  # network, source, name; that of a group is a beginning of it


class Check:
    """One password to be verified, or made a hash of, for those who wait. `question` is equal where the answer is."""

    __slots__ = ("path", "question", "waiting", "work")

    def __init__(self, path: Path, question: bytes, work: Callable[[], bytes | bool]) -> None:
        self.path = path
        self.question = question
        self.work = work
        self.waiting: list[Callable[[bool | None], None]] = []


class Failures:
    """Wrong passwords of one group: a count that falls by one in FORGIVEN_S. No check is made before `due_s`."""

    __slots__ = ("_at_s", "_count", "due_s")

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


class Group:
    """Checks that wait: in groups of the next level, the one whose turn is next first, or, for a name, by age.

    `trust` is the larger, the less; a network has that of its best source, or less if another failed.
    """

    __slots__ = ("checks", "count", "groups", "path", "trust")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.groups: dict[str, Group] = {}
        self.checks: deque[Check] = deque()
        self.count = 0
        self.trust = UNKNOWN


class LoginQueue:
    """All checks that wait, and the failures of their groups."""

    def __init__(self) -> None:
        self._root = Group(())
        self._failures: dict[Path, Failures] = {}
        self._known: OrderedDict[Path, None] = OrderedDict()  # sources that have had a right password
        self._turns = 0

    def __len__(self) -> int:
        return self._root.count

    # Coming and going

    def add(self, check: Check, now_s: float) -> Check | None:
        """Add a check; the one that is given up for it, which may be itself."""
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
                given_up = last_of(group)
                self.remove(given_up, now_s)
                return given_up
        return None

    def remove(self, check: Check, now_s: float) -> bool:
        """Remove a check; False where it does not wait any more."""
        groups = self._groups(check.path)
        if len(groups) <= len(check.path) or check not in groups[-1].checks:
            return False
        groups[-1].checks.remove(check)
        self._shrink(groups, now_s)
        return True

    def _groups(self, path: Path) -> list[Group]:
        """The groups of a path that there are, the root first."""
        groups = [self._root]
        for key in path:
            group = groups[-1].groups.get(key)
            if group is None:
                break
            groups.append(group)
        return groups

    def _shrink(self, groups: list[Group], now_s: float) -> None:
        """Count one check less in all of these, which are of one path."""
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
        """Remove and return the check whose turn it is; None where none is due."""
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
            parent.groups[key] = parent.groups.pop(key)  # to the end of the round
        self._shrink(groups, now_s)
        return check

    def wait_s(self, now_s: float) -> float:
        """How long none of the checks is due."""
        return max(0.0, self._due_s(self._root) - now_s)

    def _due_s(self, group: Group) -> float:
        """When the first check of a group may be made."""
        failures = self._failures.get(group.path)
        own_s = failures.due_s if failures is not None else 0.0
        return max(own_s, min((self._due_s(one) for one in group.groups.values()), default=0.0))

    # Trust

    def failed(self, path: Path, now_s: float) -> None:
        """The password of such a check was wrong."""
        for depth, free in ((1, float(MOST_FAILURES)), (2, SOURCE_FREE_FAILURES), (3, FREE_FAILURES)):
            failures = self._failures.get(path[:depth])
            if failures is None:
                self._forget(now_s)
                failures = self._failures[path[:depth]] = Failures()
            failures.add(now_s, free)
        self._look(self._groups(path), now_s)

    def succeeded(self, path: Path) -> None:
        """The password of such a check was right: earlier ones for the same name were errors of its user."""
        self._failures.pop(path, None)
        self._known[path[:2]] = None
        self._known.move_to_end(path[:2])
        if len(self._known) > SOURCES_LIMIT:
            self._known.popitem(last=False)

    def _forget(self, now_s: float) -> None:
        """Make room for one more group: failures that are forgiven are forgotten, or else the half with the fewest."""
        if len(self._failures) < FAILURES_LIMIT:
            return
        counts = {path: failures.count(now_s) for path, failures in self._failures.items()}
        for path in sorted(counts, key=lambda path: counts[path])[: FAILURES_LIMIT // 2]:
            del self._failures[path]

    def _look(self, groups: list[Group], now_s: float) -> None:
        """Set the trust in groups of one path anew."""
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


def last_of(group: Group) -> Check:
    """The check to give up: the newest of the group that is trusted least, of these of the largest."""
    while not group.checks:
        others = [one for key, one in group.groups.items() if key != OPERATORS]
        group = max(reversed(others), key=lambda one: (one.trust, one.count))
    return group.checks[-1]


def path_of(address: str, name: str) -> Path:
    """The groups of a login from that address for a user of that name."""
    source = source_of(address)
    return network_of(source), source, name[:NAME_LENGTH]
