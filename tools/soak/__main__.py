"""`make soak`: a mixed load on two federated brokers, with faults, for a given time; slopes, losses, the message log.

The exit status is 1 if a demand is not met.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from .run import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of the load (30)")
    parser.add_argument("--seed", type=int, default=7, help="of all random choices (7)")
    parser.add_argument("--no-export", action="store_true", help="run the brokers without the message log")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-soak-") as folder:
        report = soak(
            Path(folder), options.minutes, options.seed, not options.no_export,
            say=lambda text: print(text, flush=True),
        )  # fmt: skip
    for line in report.lines:
        print(line)
    return 1 if any(line.good is False for line in report.lines) else 0


if __name__ == "__main__":
    sys.exit(main())
