"""The broker's command line with a wall clock that is ahead: `python -m tests.support.clock_ahead FILE serve ...`.

FILE has the seconds, and may be changed while the broker runs. What was written before a start has aged by so much, and
nobody has waited for it.
"""

import sys
import time
from pathlib import Path

_wall_s = time.time


def main() -> int:
    ahead = Path(sys.argv.pop(1))
    time.time = lambda: _wall_s() + float(ahead.read_text(encoding="utf-8") or 0)
    from warren.broker.cli import main as broker  # reads the clock as it now is

    return broker()


if __name__ == "__main__":
    sys.exit(main())
