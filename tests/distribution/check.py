"""Installs the wheels of `dist/` into empty environments, one for each Python that is found, and checks them there.

    python -m tests.distribution.check [INTERPRETER ...]

Dependencies come from the package index, those of `warren analyze` included. A compiled wheel is checked beside the one
in pure Python where it fits. An interpreter that is not found is named in the output; the exit status is 1 if a check
fails, and 69 if nothing could be checked.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from tests.support.checkout import ROOT

from .installed import check_installed

VERSIONS = ("3.11", "3.12", "3.13")
QUERY = "import platform, sys; print('%d.%d' % sys.version_info[:2], platform.python_version())"
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h


def version_of(python: str) -> tuple[str, str] | None:
    """Return the minor and the whole version of an interpreter, or None if there is none of this name."""
    try:
        printed = subprocess.check_output([python, "-c", QUERY], text=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    minor, whole = printed.split()
    return minor, whole


def interpreters() -> dict[str, str]:
    """Return the interpreters of the supported versions by their whole version: on PATH, and those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    names = ["/usr/bin/python3", *(f"python{version}" for version in VERSIONS)]
    names += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    found: dict[str, str] = {}
    for name in names:
        version = version_of(name)
        if version is not None and version[0] in VERSIONS:
            found.setdefault(version[1], name)
    return found


def wheels_for(version: str) -> list[Path]:
    """Return the wheels of `dist/` that fit this version of Python: the one in pure Python, and a compiled one."""
    dist, (major, minor, *_) = ROOT / "dist", version.split(".")
    return [*dist.glob("warrenmq-*-py3-none-any.whl"), *dist.glob(f"warrenmq-*-cp{major}{minor}-*manylinux*.whl")]


def check(python: str, wheel: Path, folder: Path) -> None:
    """Install a wheel into an empty environment of this interpreter, and print what works. Raises AssertionError."""
    environment = folder / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    java = shutil.which("java") is not None
    requirement = f"{wheel}{'[analytics]' if java else ''}"
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", requirement], check=True)
    for line in check_installed(environment / "bin", folder / "broker", analytics=java):
        print(f"    {line}", flush=True)
    if not java:
        print("    NOTE: without Java, warren analyze was not checked")


def main() -> int:
    given = sys.argv[1:]
    found = {(version_of(name) or ("", name))[1]: name for name in given} if given else interpreters()
    minors = {".".join(version.split(".")[:2]) for version in found}
    for version in VERSIONS:
        if version not in minors:
            print(f"Python {version}: not found, not checked")
    checked, status = 0, 0
    for version, python in found.items():
        for wheel in wheels_for(version):
            with tempfile.TemporaryDirectory(prefix="warren-") as folder:
                print(f"Python {version} ({python}), {wheel.name}", flush=True)
                try:
                    check(python, wheel, Path(folder))
                except (AssertionError, OSError, subprocess.SubprocessError):
                    traceback.print_exc()
                    print("    FAILED", flush=True)
                    status = 1
            checked += 1
    return status if checked else UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
