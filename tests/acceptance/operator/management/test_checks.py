"""The table of acceptance checks is complete and names existing tests."""

import ast
from functools import cache

import pytest

from tests.support.checkout import ROOT

from .checks import CHECKS, LAST_CHECK, LATER, located


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_check_has_a_test_or_a_reason() -> None:
    assert CHECKS.keys() | LATER.keys() == set(range(1, LAST_CHECK + 1))
    assert CHECKS.keys().isdisjoint(LATER)


@pytest.mark.parametrize("number", CHECKS)
def test_the_tests_of_a_check_are_there(number: int) -> None:
    for test in CHECKS[number]:
        file, name = located(test)
        assert (ROOT / file).is_file(), test
        assert not name or name in functions_of(file), test
