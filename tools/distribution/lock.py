"""Locks the dependencies of the image and of the tests: their newest versions, with the hashes of all files.

    python -m tools.distribution.lock

The first line of a lock file names the one that it extends; it has only the requirements that the other one lacks.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT

FOLDER = ROOT / "docker"
OPTIONS = ("--upgrade", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate")
IMAGE, TESTS = ("--python-platform", "linux"), ("--universal",)
BASE = "requirements.txt"
LOCKS = {  # by file: the extra of the package, the lock file that it extends, and options
    BASE: ("", "", IMAGE),
    "requirements-analytics.txt": ("analytics", BASE, IMAGE),
    "requirements-postgresql.txt": ("postgresql", BASE, IMAGE),
    "requirements-test.txt": ("test", BASE, TESTS),
    "requirements-test-more.txt": ("test-more", "requirements-test.txt", TESTS),
}
EXTENDS = "-r "


def requirements(file: Path) -> dict[str, str]:
    """Return the requirements of a lock file and of those that it extends, with their hashes: each in one line.

    The keys are their names and versions, and the platforms on which they are some.
    """
    found: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.startswith(EXTENDS):
            found |= requirements(file.with_name(line.removeprefix(EXTENDS)))
        else:
            found[line.partition(" --hash")[0].rstrip()] = line
    return found


def shorten(file: Path, extended: Path) -> None:
    """Leave out of a lock file what the other one has, on each platform, and let it extend that one."""
    known = requirements(extended)
    entries = re.split(r"\n(?=\S)", file.read_text(encoding="utf-8").rstrip("\n"))
    own = [entry for entry in entries if not known.keys() & {entry.split()[0], entry.partition(" \\\n")[0]}]
    file.write_text("\n".join([EXTENDS + extended.name, *own]) + "\n", encoding="utf-8")


def main() -> int:
    for name, (extra, base, options) in LOCKS.items():
        extras = ("--extra", extra) if extra else ()
        versions = ("--constraint", FOLDER / base) if base else ()
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml", *extras, *versions]
        subprocess.run([*command, *OPTIONS, *options, "--output-file", FOLDER / name], check=True, cwd=ROOT)
        if base:
            shorten(FOLDER / name, FOLDER / base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
