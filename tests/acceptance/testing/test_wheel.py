"""The wheel in an environment of its own, where a project uses nothing of it but the fixtures."""

from pathlib import Path

import pytest

from tests.acceptance.documents.blocks import blocks_of
from tests.support.checkout import ROOT
from tests.support.foreign_project import ForeignProject
from tests.support.wheel import build_wheel, install_wheel

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of a new environment with the wheel; all else is that of the environment of these tests."""
    folder = tmp_path_factory.mktemp("environment")
    return str(install_wheel(build_wheel(folder), folder / "venv") / "python")


@pytest.fixture
def project(python: str, tmp_path: Path) -> ForeignProject:
    project = ForeignProject(tmp_path / "project", tmp_path / "unused", python)
    del project.environment["PYTHONPATH"]
    for block in blocks_of(ROOT / "docs/testing.md"):
        if block.language == "python" and block.name:
            project.write(block.name, block.text)
    return project


def test_it_is_the_wheel_that_is_imported(project: ForeignProject, python: str) -> None:
    printed = project.run("-P", "-c", "import warren.testing; print(warren.testing.__file__)").stdout
    assert Path(printed).is_relative_to(Path(python).parents[1])


@pytest.mark.parametrize("client", ["pika", "aio_pika", "kombu", "celery"])
def test_each_client_has_a_broker(project: ForeignProject, client: str) -> None:
    ran = project.pytest("-q", "-Wdefault", f"test_{client}.py")
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_four_workers_run_all_tests_of_the_project(project: ForeignProject) -> None:
    ran = project.pytest("-q", "-Wdefault", "-n", "4")
    assert ran.returncode == 0, ran.stdout + ran.stderr
