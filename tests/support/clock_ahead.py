"""The broker's command line with a wall clock that is ahead: `python -m tests.support.clock_ahead SECONDS serve ...`.

The broker reads the wall clock once, when it starts, and counts on from there: what was written before has aged by so
much, and nobody has waited for it.
"""

import sys
import time

_wall_s = time.time


def main() -> int:
    ahead_s = float(sys.argv.pop(1))
    time.time = lambda: _wall_s() + ahead_s
    from warren.broker.cli import main as broker  # reads the clock as it now is

    return broker()


if __name__ == "__main__":
    sys.exit(main())
