"""`make chaos`: faults and abuse with real processes, sockets and clients, each with a demand and its result.

The exit status is 1 if a demand is not met. Scenarios that cannot be run here are shown with the reason.
"""

import argparse
import json
import os
import sys
import time

from .scenarios import SCENARIOS

SEED = 7


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", type=int, default=[], metavar="NUMBER", help="scenarios; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of rounds, messages and clients (1)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of all random choices ({SEED})")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    held = True
    for scenario in SCENARIOS:
        if options.only and scenario.number not in options.only:
            continue
        began_s = time.monotonic()
        outcome = scenario.run(options.scale, options.seed)
        took_s = time.monotonic() - began_s
        held = held and outcome.holds is not False
        verdict = {True: "held", False: "NOT HELD", None: "not run"}[outcome.holds]
        scaled = f" [scaled down: {scenario.scaled}]" if scenario.scaled and options.scale <= 1 else ""
        if options.json:
            row = {"number": scenario.number, "scenario": scenario.name, "demanded": scenario.demand,
                   "scaled_down": scenario.scaled, "scale": options.scale, "measured": outcome.text, "verdict": verdict,
                   "seconds": round(took_s), "load_average": os.getloadavg()[0]}  # fmt: skip
            print(json.dumps(row), flush=True)
        else:
            print(f"{scenario.number:2} {scenario.name} | {scenario.demand} | {outcome.text}{scaled} ({took_s:.0f} s)"
                  f" | {verdict}", flush=True)  # fmt: skip
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
