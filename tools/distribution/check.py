"""Installs the wheels of `dist/` into empty environments, one for each Python that is found, and checks them there.

    python -m tools.distribution.check [INTERPRETER ...]

Dependencies come from the package index, those of `warren analyze` included. Spark, 450 MB that are the same for every
Python, is installed once, so all analyses share one archive of Java's classes. Where a compiled wheel fits, it then
replaces the one in pure Python, and all but the analysis, of which nothing is compiled, is checked again. An
interpreter that is not found is named in the output; the exit status is 1 if a check fails, and 69 if nothing could be
checked.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.checkout import ROOT

from .contents import PROJECT, extension_modules
from .installed import check_installed

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
QUERY = "import platform, sys; print('%d.%d' % sys.version_info[:2], platform.python_version())"
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h
STEP_WITHIN_S = 1800.0  # Spark is downloaded


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


def install(*words: str | Path, python: str | Path = sys.executable) -> None:
    """Install with the pip of these tests for this interpreter. Raises CalledProcessError."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *words], check=True, timeout=STEP_WITHIN_S)


def install_spark(folder: Path) -> None:
    """Install Spark alone into a folder. Raises CalledProcessError."""
    (spark,) = (each for each in PROJECT["optional-dependencies"]["analytics"] if Requirement(each).name == "pyspark")
    install("--target", folder, spark)


def check(python: str, wheels: list[Path], folder: Path, spark: Path | None) -> None:
    """Install wheels, one after the other, into an empty environment of this interpreter, and print what works.

    `spark` is the folder with Spark; without it the analysis is left out. Raises AssertionError.
    """
    environment, commands = folder / "venv", folder / "venv" / "bin"
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    if spark is not None:
        (packages,) = environment.glob("lib/python3*/site-packages")
        (packages / "spark.pth").write_text(f"{spark}\n", encoding="utf-8")
    for wheel in wheels:
        begin_s = time.monotonic()
        first = wheel is wheels[0]
        cache = spark.parent / "cache" if spark is not None and first else None
        extra = "" if cache is None else "[analytics]"
        install(f"{wheel}{extra}", *([] if first else ["--force-reinstall", "--no-deps"]), python=commands / "python")
        print(f"  {wheel.name}, installed in {time.monotonic() - begin_s:.0f} s", flush=True)
        for line in check_installed(commands, folder / wheel.stem, extension_modules(wheel), cache):
            print(f"    {line}", flush=True)


def main() -> int:
    given = sys.argv[1:]
    found = {(version_of(name) or ("", name))[1]: name for name in given} if given else interpreters()
    minors = {".".join(version.split(".")[:2]) for version in found}
    for version in VERSIONS:
        if version not in minors:
            print(f"Python {version}: not found, not checked")
    checked, status = 0, 0
    with tempfile.TemporaryDirectory(prefix="warren-") as shared:
        spark = Path(shared, "spark") if shutil.which("java") is not None else None
        if spark is None:
            print("NOTE: without Java, warren analyze is not checked")
        else:
            install_spark(spark)
        for version, python in found.items():
            wheels = wheels_for(version)
            if not wheels:
                continue
            begin_s = time.monotonic()
            print(f"Python {version} ({python})", flush=True)
            with tempfile.TemporaryDirectory(prefix="warren-") as folder:
                try:
                    check(python, wheels, Path(folder), spark)
                    print(f"  checked in {time.monotonic() - begin_s:.0f} s", flush=True)
                except (AssertionError, OSError, subprocess.SubprocessError):
                    traceback.print_exc()
                    print("  FAILED", flush=True)
                    status = 1
            checked += len(wheels)
    return status if checked else UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
