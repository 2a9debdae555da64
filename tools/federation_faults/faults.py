"""`make federation-faults`: every fault of crossing.py for as long as it takes, one line for each.

The exit status is 1 if a confirmed message was lost, or if more repeats arrived than breaks explain.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path

from tests.support.loop_thread import LoopThread

from .crossing import PREFETCH, Crossing

KILLS = 50
CUTS_S = (1.0, 30.0, 120.0)
FLAP_EVERY_S, FLAP_FOR_S = 0.2, 120.0
BINDING_ROUNDS = 50


def repeat(times: int, fault: Callable[[Crossing], None]) -> Callable[[Crossing], None]:
    def run(crossing: Crossing) -> None:
        for _ in range(times):
            crossing.load()
            fault(crossing)

    return run


FAULTS: dict[str, Callable[[Crossing], None]] = {
    f"upstream killed {KILLS} times": repeat(KILLS, Crossing.kill_upstream),
    f"downstream killed {KILLS} times": repeat(KILLS, Crossing.kill_downstream),
    **{f"line cut for {seconds:.0f} s": methodcaller("cut", seconds) for seconds in CUTS_S},
    **{f"line silent for {seconds:.0f} s": methodcaller("silence", seconds) for seconds in CUTS_S[:2]},
    f"line cut every {FLAP_EVERY_S * 1000:.0f} ms for {FLAP_FOR_S:.0f} s": (
        lambda one: one.flap(FLAP_EVERY_S, FLAP_FOR_S)
    ),
    "upstream queue deleted": repeat(5, Crossing.delete_queue),
    f"bindings changed in {BINDING_ROUNDS} starts": lambda one: one.change_bindings(BINDING_ROUNDS),
}


def survives(fault: Callable[[Crossing], None], loop: LoopThread) -> tuple[bool, str]:
    """Return whether no message was lost, and a description."""
    with tempfile.TemporaryDirectory(prefix="warren-faults-") as folder:
        crossing = Crossing(Path(folder), loop)
        try:
            crossing.begin()
            fault(crossing)
            crossing.load()
            outcome = crossing.outcome()
        finally:
            crossing.close()
    return not outcome.lost and outcome.duplicates <= PREFETCH * outcome.breaks, str(outcome)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="words that a fault has in its name; default: all")
    words = parser.parse_args().only
    loop = LoopThread()
    good = True
    for name, fault in FAULTS.items():
        if words and not any(word in name for word in words):
            continue
        began_s = time.monotonic()
        survived, result = survives(fault, loop)
        good = good and survived
        print(f"{'ok  ' if survived else 'FAIL'} {name}: {result} ({time.monotonic() - began_s:.0f} s)", flush=True)
    loop.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
