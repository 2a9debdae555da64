"""The tests of folders with modules that mypyc compiles, run with these in a copy of the tree."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

COPY = ROOT / ".venv" / "compiled"  # kept: only units with a change are compiled again
FOLDERS = ("federation", "plugins", "warren", "tests")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
TESTED = ("tests/unit/amqp", "tests/unit/wire", "tests/unit/session", "tests/acceptance/amqp")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "*.so", "compiled.*.txt")
COMPILING = {"WARREN_COMPILE": "1", "WARREN_OPTIMISATION": "0"}
COMPILED = """
import warren.broker.session.connection as module
from warren.broker.compilation import BUILD, COMPILED

assert BUILD == COMPILED and module.__file__.endswith(".so")
"""


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
    files = [path for path in (ROOT / "broker").rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    built = ("*.so", "compiled.*.txt")
    sources = {path.relative_to(ROOT) for path in files if not any(map(path.match, built))}
    for path in (COPY / "broker").rglob("*.py"):
        if path.relative_to(COPY) not in sources:
            path.unlink()
    for name in [*sources, *map(Path, FILES)]:
        copy_if_changed(ROOT / name, COPY / name)


@pytest.fixture(scope="module")
def compiled() -> Path:
    """The copy, with its modules compiled in place."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler: {compiler}")
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        pytest.skip(f"no header files of Python in {headers}: Debian's python3-dev has them")
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree()
    succeed("setup.py", "--quiet", "build_ext", "--inplace", "--parallel", "2", folder=COPY, **COMPILING)
    return COPY


def succeed(*words: str, folder: Path, **variables: str) -> None:
    """Run Python in a folder, without the variables of this run, and check that it succeeds."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WARREN_"))}
    environment = {**kept, **variables}
    ran = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.pure("the same tests run compiled anyway")
@pytest.mark.timeout(1800)
def test_the_tests_of_the_hot_folders_pass_compiled(compiled: Path) -> None:
    succeed("-c", COMPILED, folder=compiled)
    succeed("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTED, folder=compiled)


@pytest.mark.timeout(1800)
def test_a_compiled_wheel_has_an_extension_beside_each_compiled_module(compiled: Path, tmp_path: Path) -> None:
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(tmp_path)]
    succeed("-m", "pip", "wheel", *options, str(compiled), folder=tmp_path, **COMPILING)
    (wheel,) = tmp_path.glob("warrenmq-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    in_place = {path.relative_to(compiled / "broker") for path in (compiled / "broker").rglob("*.so")}
    installed = tmp_path / "installed" / "warren" / "broker"
    assert {path.relative_to(installed) for path in installed.rglob("*.so")} == in_place
    succeed("-c", COMPILED, folder=tmp_path, PYTHONPATH=str(tmp_path / "installed"))
