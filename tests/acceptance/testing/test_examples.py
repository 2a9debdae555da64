"""Every block of code in docs/testing.md is executed: as files of a project, by themselves, or by the shell."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.foreign_project import BLOCK, PAGE, ForeignProject, blocks
from warren.testing import Broker

pytestmark = pytest.mark.sockets
PYTHON_FILES = {name: text for language, name, text in blocks() if language == "python" and name}
# The page shows the shortest lines; what a client leaves open is none of our warnings.
LENIENT = "-Wdefault"


@pytest.fixture
def project(tmp_path: Path) -> ForeignProject:
    project = ForeignProject(tmp_path / "project", tmp_path / "installed")
    for name, text in PYTHON_FILES.items():
        project.write(name, text)
    return project


def test_each_block_is_of_a_kind_that_is_tested_here() -> None:
    kinds = {(language, bool(name)) for language, name, _ in blocks()}
    assert kinds == {("python", True), ("python", False), ("sh", True), ("json", False)}
    indented = BLOCK.sub("", PAGE.read_text(encoding="utf-8"))
    assert re.findall(r"^    (.*)", indented, re.MULTILINE) == ["pip install warrenmq"]


def test_the_files_of_the_page_are_a_project_whose_tests_pass(project: ForeignProject) -> None:
    written = sum(
        1 + text.count('"alarm", ["block", "fill_disk"]') * (node.name.startswith("test_a_publisher_is_blocked"))
        for text in PYTHON_FILES.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )
    ran = project.pytest("-q", LENIENT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{written} passed" in ran.stdout


def test_the_example_of_unittest_runs_without_pytest(project: ForeignProject) -> None:
    ran = project.run("test_with_unittest.py")
    assert (ran.returncode, ran.stderr.strip().splitlines()[-1:]) == (0, ["OK"]), ran.stderr


def test_the_example_without_a_framework_prints_addresses(project: ForeignProject) -> None:
    [text] = [text for language, name, text in blocks() if language == "python" and not name]
    ran = project.run("-c", text)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"amqp://guest:guest@127\.0\.0\.1:\d+/ http://127\.0\.0\.1:\d+\n", ran.stdout)


def test_the_example_of_the_shell_prints_what_the_page_says(project: ForeignProject, tmp_path: Path) -> None:
    [text] = [text for language, _, text in blocks() if language == "sh"]
    [expected] = [text for language, _, text in blocks() if language == "json"]
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    ran = subprocess.run(
        [shutil.which("bash") or "bash", "-c", text],
        cwd=project.folder, env={**project.environment, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.stderr == ""
    numbers = re.compile(r"(?<=:)\d+|(?<=: )\d+")
    assert numbers.sub("N", ran.stdout) == numbers.sub("N", expected)


def test_the_page_names_every_method_and_attribute_of_a_broker() -> None:
    page = PAGE.read_text(encoding="utf-8")
    public = {name for name in {*vars(Broker), *Broker.__annotations__} if not name.startswith("_")}
    unnamed = {name for name in public if not re.search(rf"`(?:broker\.)?{name}\b", page)}
    assert unnamed == set()


def test_the_addresses_of_the_page_are_one_line_of_json() -> None:
    [text] = [text for language, _, text in blocks() if language == "json"]
    assert set(json.loads(text.splitlines()[0])) == set(Broker.__annotations__)
