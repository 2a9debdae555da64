"""The manual pages: they are those of the commands as they are, and render."""

import shutil
import subprocess

import pytest

from .pages import FOLDER, PAGES

EACH_PAGE = pytest.mark.parametrize("name", PAGES)


@EACH_PAGE
def test_the_page_is_that_of_the_commands(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text == PAGES[name](), "python -m tests.unit.system.pages renews it"


@EACH_PAGE
def test_the_page_renders_without_a_warning(name: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(FOLDER / name)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


@EACH_PAGE
def test_the_page_has_no_error_for_mandoc(name: str) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    ran = subprocess.run(
        ["mandoc", "-Tlint", "-Werror", str(FOLDER / name)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
