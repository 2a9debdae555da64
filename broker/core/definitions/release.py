"""The release of decoded documents: to free very many objects at once would hold the loop."""

from collections import deque
from collections.abc import Iterable, Iterator

RELEASED = 500  # objects freed in one step
CONTAINERS = (dict, list, set, deque)


def release(*containers: object) -> Iterator[None]:
    """Empty containers, and all that are in them at any depth, in steps."""
    pending = list(containers)
    count = 0
    while pending:
        one = pending[-1]
        if not isinstance(one, CONTAINERS) or not one:
            pending.pop()
            continue
        inner = one.popitem()[1] if isinstance(one, dict) else one.pop()
        if isinstance(inner, CONTAINERS):
            pending.append(inner)
        count += 1
        if count == RELEASED:
            count = 0
            yield
    yield


def finish(steps: Iterable[None]) -> None:
    """Do all steps, in a thread that lets others run in between."""
    for _ in steps:
        pass
