"""Coverage-guided fuzzing with atheris: `make fuzz-coverage ARGS="session --minutes 10"`.

Each target is searched in a process of its own. An input is a finding if it raises, ends the interpreter, needs more
memory than `MEMORY_MB`, or has a turn of the event loop above the target's limit. Findings are kept in build/fuzz, and
printed at the end. A long turn is measured again without instrumentation before it counts. With `--store` the shortest
inputs that reached new code replace the stored ones, which the gate runs. Compiled modules run, but only pure Python
guides the search.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.support.checkout import ROOT

FOLDER = ROOT / "build" / "fuzz"
MEMORY_MB = 64  # growth of the process in one input
LONGEST_INPUT_S = 20
ATTEMPTS = 3
STORED_BYTES = 4096  # the limit for all stored inputs of a target
FINDINGS = 20  # the limit for a target, after which its search ends
SLOW = "slow-"


def longest_turn_ms(name: str, data: bytes) -> float:
    """Return the longest turn of an input in processor time. Raises the target's errors, and MemoryError."""
    from tests.faults.fuzz.targets import TARGETS

    longest_s, begun_s = 0.0, time.thread_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def turn() -> None:
        nonlocal longest_s, begun_s
        now_s = time.thread_time()
        longest_s, begun_s = max(longest_s, now_s - begun_s), now_s

    TARGETS[name].run(data, turn)
    turn()
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > MEMORY_MB << 10:
        raise MemoryError(f"more than {MEMORY_MB} MB for {len(data)} bytes")
    return longest_s * 1000


def search(name: str, corpus: Path, found: Path, options: list[str]) -> None:
    """Search in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["warren", "pamqp", "h11", "tomllib"]):
        from tests.faults.fuzz.targets import TARGETS
    target = TARGETS[name]
    longest_turn_ms(name, target.seeds[0])  # one-time allocations do not count for an input

    def run(data: bytes) -> None:
        if longest_turn_ms(name, data) > target.turn_ms:
            (found / f"{SLOW}{hash(data) & 0xFFFFFFFF:08x}").write_bytes(data)

    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={found}/", *options], run)
    atheris.Fuzz()


def check(name: str, path: Path) -> bool:
    """Print whether an input is still a finding, measured in this process."""
    from tests.faults.fuzz.targets import TARGETS

    data = path.read_bytes()
    longest_turn_ms(name, TARGETS[name].seeds[0])
    try:
        took_ms = min(longest_turn_ms(name, data) for _ in range(ATTEMPTS))
    except Exception:
        traceback.print_exc()
        return True
    if took_ms > TARGETS[name].turn_ms:
        print(f"{path}: a turn of {took_ms:.0f} ms")
    return took_ms > TARGETS[name].turn_ms


def run_child(*arguments: str, log: Path | None = None) -> int:
    line = [sys.executable, "-W", "ignore", "-m", "tools.fuzz", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if log is None:
        return subprocess.run(line, cwd=ROOT, env=environment, check=False).returncode
    with log.open("w") as file:
        return subprocess.run(line, cwd=ROOT, env=environment, stderr=file, stdout=file, check=False).returncode


def fuzz(name: str, minutes: float, store_inputs: bool) -> int:
    """Search a target, print a row of the table, and return how many inputs are findings."""
    from tests.faults.fuzz.targets import TARGETS, corpus

    folder = FOLDER / name
    inputs, found, log = folder / "corpus", folder / "found", folder / "log.txt"
    for each in (inputs, found):
        each.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*TARGETS[name].seeds, *corpus.stored(name)]):
        (inputs / f"stored-{number}").write_bytes(data)
    bounds = [f"-max_len={TARGETS[name].max_bytes}", f"-timeout={LONGEST_INPUT_S}", "-rss_limit_mb=2048"]
    begun_s, runs = time.monotonic(), 0
    while (left_s := int(minutes * 60 - (time.monotonic() - begun_s))) > 0:
        status = run_child("--search", name, str(inputs), str(found), f"-max_total_time={left_s}", *bounds, log=log)
        text = log.read_text(errors="replace")
        runs += max(map(int, re.findall(r"^#(\d+)\s", text, re.M)), default=0)
        if status == 0:
            break
        if len(list(found.iterdir())) >= FINDINGS:
            break
    features = re.findall(r"cov: (\d+) ft: (\d+)", log.read_text(errors="replace"))
    findings = [path for path in sorted(found.iterdir()) if run_child("--check", name, str(path)) != 0]
    if store_inputs:
        kept, total = [], 0
        seeds = set(TARGETS[name].seeds)
        for data in sorted((path.read_bytes() for path in inputs.iterdir()), key=len):
            total += len(data)
            if data in seeds or not data:
                continue
            if total > STORED_BYTES:
                break
            kept.append(data)
        corpus.store(name, kept)
    coverage = "/".join(features[-1]) if features else "-"
    spent_min = (time.monotonic() - begun_s) / 60
    print(f"| {name} | {runs:,} | {spent_min:.1f} | {coverage} | {len(findings)} |", flush=True)
    for path in findings:
        print(f"  {path.relative_to(ROOT)}: {path.read_bytes()[:80]!r}")
    return len(findings)


def main() -> int:
    if sys.argv[1:2] == ["--search"]:
        name, corpus_folder, found, *options = sys.argv[2:]
        search(name, Path(corpus_folder), Path(found), options)
        return 0
    if sys.argv[1:2] == ["--check"]:
        return check(sys.argv[2], Path(sys.argv[3]))
    from tests.faults.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all by default: {', '.join(TARGETS)}")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each target")
    parser.add_argument("--store", action="store_true", help="store the inputs that reach most code")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    print("| target | executions | minutes | coverage/features | found |\n|---|---:|---:|---:|---:|", flush=True)
    return 1 if sum([fuzz(name, options.minutes, options.store) for name in options.targets or TARGETS]) else 0


if __name__ == "__main__":
    sys.exit(main())
