"""The wheel of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

from .checkout import ROOT

PACKAGES = ("broker", "federation", "plugins", "testing")


def build_wheel(folder: Path) -> Path:
    """Build the wheel, in pure Python, from a copy of the checkout in this folder, and return its path."""
    source = folder / "source"
    source.mkdir()
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copytree(ROOT / "warren", source / "warren", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True, cwd=folder)
    (wheel,) = folder.glob("warrenmq-*.whl")
    return wheel
