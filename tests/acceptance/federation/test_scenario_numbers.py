"""The numbers in names of tests: each number from 1 to LAST has a test, here or in a file that is named below."""

import ast
import re
from pathlib import Path

from tests.support.checkout import ROOT

FOLDER = Path(__file__).parent
LAST = 107
ELSEWHERE = {
    104: "tests/unit/config/test_federation.py",
}
LATER = {105: "the user interface"}


def numbers(folder: Path) -> set[int]:
    """Return the numbers in the names of the tests in a folder or file."""
    found = set()
    for path in folder.rglob("test_*.py") if folder.is_dir() else [folder]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (match := re.match(r"test_(\d{3})_", node.name)):
                found.add(int(match[1]))
    return found


def test_every_number_has_a_test() -> None:
    here = numbers(FOLDER)
    assert sorted(here | ELSEWHERE.keys() | LATER.keys()) == list(range(1, LAST + 1))
    assert not here & (ELSEWHERE.keys() | LATER.keys()), "a line is not needed any more"


def test_what_is_tested_elsewhere_is_tested_there() -> None:
    for number, place in ELSEWHERE.items():
        assert number in numbers(ROOT / place), (number, place)
