"""The source archive and the wheel of this checkout, and an environment in which that wheel is installed."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from .checkout import ROOT

PACKAGES = ("broker", "federation", "plugins")
BUILDING = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}  # the time of all files
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "compiled.*.txt")


def build_archive(folder: Path) -> Path:
    """Build the source archive from a copy of the checkout in this folder, and return its path."""
    source = folder / "source"
    source.mkdir()
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=LEFT_OUT)
    shutil.copytree(ROOT / "warren", source / "warren", symlinks=True, ignore=LEFT_OUT)
    shutil.copytree(ROOT / "docs", source / "docs")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(folder)]
    subprocess.run(command, check=True, cwd=source, env=BUILDING)
    (archive,) = folder.glob("warrenmq-*.tar.gz")
    return archive


def build_wheel(folder: Path) -> Path:
    """Build the source archive in this folder, and from it the wheel, in pure Python; return the wheel's path."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--no-cache-dir", "--wheel-dir"]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(folder), str(build_archive(folder))]
    subprocess.run(command, check=True, cwd=folder, env=BUILDING)
    (wheel,) = folder.glob("warrenmq-*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment in this folder, and return the folder of its commands.

    All else that it can import is that of the environment of these tests, so nothing is downloaded.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    commands = folder / "bin"
    query = "import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))"
    packages = Path(json.loads(subprocess.check_output([commands / "python", "-c", query])))
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(commands / "python"), "install", *options, str(wheel)]
    subprocess.run(pip, check=True)
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return commands


def outside() -> dict[str, str]:
    """The environment of a process that imports what is installed, and nothing of this checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and name[:6] != "PYTEST"}
