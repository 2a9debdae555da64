"""The handlers of policies and of operator policies are one function each, and tell the routes what body they take."""

import functools

import pytest

from warren.plugins.management.api import policies


def test_a_handler_has_the_annotations_of_its_function_also_where_no_wrapper_copies_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.14 copies `__annotate__` in their place."""
    assigned = tuple(name for name in functools.WRAPPER_ASSIGNMENTS if name != "__annotations__")
    monkeypatch.setattr(policies, "WRAPPER_ASSIGNMENTS", assigned)
    monkeypatch.setattr(functools.update_wrapper, "__defaults__", (assigned, functools.WRAPPER_UPDATES))
    for operator in (False, True):
        handler = policies.handler_of(policies.put_policy, operator)
        assert handler.__annotations__["body"] is policies.put_policy.__annotations__["body"]
