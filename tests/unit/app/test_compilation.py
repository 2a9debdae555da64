"""The choice between compiled modules and their sources."""

import os
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from tests.support.broker_process import run
from tests.support.checkout import ROOT
from warren.broker.compilation import NOT_COMPILED, SWITCHED_OFF, manifest_path, pure_reason

SOURCE = "wire/reader.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one source, compiled after its last change."""
    monkeypatch.delenv("WARREN_PURE", raising=False)
    source = tmp_path / SOURCE
    source.parent.mkdir()
    source.write_text("SIZE = 1\n")
    Path(manifest_path(str(tmp_path))).write_text(f"{crc32(source.read_bytes())} {SOURCE}\n")
    return tmp_path


def newer(folder: Path) -> None:
    compiled_ns = os.stat(manifest_path(str(folder))).st_mtime_ns
    os.utime(folder / SOURCE, ns=(compiled_ns + 1, compiled_ns + 1))


def test_a_folder_without_a_manifest_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARREN_PURE", raising=False)
    assert pure_reason(str(tmp_path)) == NOT_COMPILED


def test_compiled_modules_are_used_while_their_sources_are_the_same(folder: Path) -> None:
    newer(folder)  # as after a checkout
    assert pure_reason(str(folder)) == ""


def test_a_changed_source_makes_all_modules_pure(folder: Path) -> None:
    (folder / SOURCE).write_text("SIZE = 2\n")
    newer(folder)
    assert pure_reason(str(folder)) == f"{SOURCE} has changed since it was compiled"


def test_an_older_source_of_another_version_makes_all_modules_pure(folder: Path) -> None:
    (folder / SOURCE).write_text("SIZE = 2\n")
    os.utime(folder / SOURCE, ns=(1, 1))  # as after a copy that keeps times, or a downgrade by files
    assert pure_reason(str(folder)) == f"{SOURCE} has changed since it was compiled"


def test_a_deleted_source_makes_all_modules_pure(folder: Path) -> None:
    (folder / SOURCE).unlink()
    assert pure_reason(str(folder)) == f"{SOURCE} has changed since it was compiled"


@pytest.mark.parametrize(("value", "reason"), [("1", SWITCHED_OFF), ("0", ""), ("", "")])
def test_the_environment_switches_compiled_modules_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    monkeypatch.setenv("WARREN_PURE", value)
    assert pure_reason(str(folder)) == reason


def test_switched_off_every_module_of_the_broker_is_imported_from_its_source() -> None:
    program = (
        "import sys, warren.broker.app.main\n"
        "files = [module.__file__ for name, module in sys.modules.items() if name.startswith('warren.broker.')]\n"
        "print(*files, sep='\\n')"
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "WARREN_PURE": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    files = ran.stdout.splitlines()
    assert len(files) > 100 and all(file.endswith(".py") for file in files)


def test_the_version_says_which_build_runs() -> None:
    ran = run("--version", WARREN_PURE="1")
    assert ran.stdout.strip().endswith(f", pure Python ({SWITCHED_OFF})")
