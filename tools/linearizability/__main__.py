"""`make linearizability`: histories of clients that publish, get and acknowledge, under faults, checked by Porcupine.

The exit status is 1 if a history is not linearizable. Without Go the histories are written and not checked.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from .runs import RUNS, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.linearizability", description=__doc__)
    parser.add_argument("only", nargs="*", choices=[[], *RUNS], help="runs; default: all")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the load in each run (10)")
    parser.add_argument("--seed", type=int, default=7, help="of all random choices (7)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the histories are written")
    options = parser.parse_args()
    held = True
    with tempfile.TemporaryDirectory(prefix="warren-linearizability-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        for name in options.only or RUNS:
            outcome = run(name, folder, options.seconds, options.seed)
            held = held and outcome.holds is not False
            print(f"{name}: {outcome.text}: {outcome.verdict}", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
