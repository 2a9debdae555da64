"""The tests of folders with modules that mypyc compiles, run with these in a copy of the tree."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

COPY = ROOT / ".venv" / "compiled"  # kept: only units with a change are compiled again
FOLDERS = ("federation", "plugins", "warren", "tests")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
TESTED = ("tests/unit/amqp", "tests/unit/wire", "tests/unit/session", "tests/acceptance/amqp")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "*.so", "compiled.*.txt")
COMPILED = "from warren.broker.compilation import BUILD, COMPILED; assert BUILD == COMPILED"


def copy_if_changed(source: Path, target: Path) -> None:
    """Copy a file, unless the target has the same content: its time decides whether it is compiled again."""
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def copy_tree() -> None:
    for folder in FOLDERS:
        shutil.rmtree(COPY / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, COPY / folder, symlinks=folder == "warren", ignore=LEFT_OUT)
    sources = {path.relative_to(ROOT) for path in (ROOT / "broker").rglob("*.py")}
    for path in (COPY / "broker").rglob("*.py"):
        if path.relative_to(COPY) not in sources:
            path.unlink()
    for name in [*sources, *map(Path, FILES)]:
        copy_if_changed(ROOT / name, COPY / name)


@pytest.mark.pure("the same tests run compiled anyway")
@pytest.mark.timeout(1800)
def test_the_tests_of_the_hot_folders_pass_compiled() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler: {compiler}")
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree()
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WARREN_"))}
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--parallel", "2"]
    building = {**variables, "WARREN_COMPILE": "1", "WARREN_OPTIMISATION": "0"}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTED]
    for command, environment in (
        (build, building),
        ([sys.executable, "-c", COMPILED], variables),
        (tests, variables),
    ):
        ran = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
