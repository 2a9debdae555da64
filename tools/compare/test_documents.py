"""The rules by which two answers are compared; no RabbitMQ is needed."""

from typing import Any

import pytest

from .documents import Difference, differences, normalised, own


def places(warren: Any, reference: Any) -> list[tuple[str, str, str]]:
    return [(one.place, one.warren, one.reference) for one in differences("GET /x", "body", warren, reference)]


def test_equal_documents_do_not_differ() -> None:
    document = {"name": "q", "arguments": {"a": [1, "x", None]}, "durable": True}
    assert places(document, dict(document)) == []


def test_a_field_that_one_side_lacks_is_named() -> None:
    assert places({"a": 1}, {"a": 1, "b": "x"}) == [("body.b", "no such field", "'x'")]
    assert places({"a": 1, "b": "x"}, {"a": 1}) == [("body.b", "'x'", "no such field")]


@pytest.mark.parametrize(("warren", "reference"), [(1, 2), (1, 1.0), (True, 1), ("1", 1), (None, ""), ([], {})])
def test_values_differ_by_type_as_well(warren: object, reference: object) -> None:
    assert len(places({"a": warren}, {"a": reference})) == 1


def test_a_figure_that_varies_is_compared_by_its_type() -> None:
    assert places({"mem_used": 1, "rate": 0.5}, {"mem_used": 99, "rate": 2}) == []
    assert places({"mem_used": "much"}, {"mem_used": 99}) == [("body.mem_used", "type string", "type number")]


def test_objects_in_lists_are_paired_by_their_identity_and_not_by_place() -> None:
    one, other = {"vhost": "v", "name": "a", "x": 1}, {"vhost": "v", "name": "b", "x": 2}
    assert places([one, other], [other, one]) == []
    assert places([one], [{**one, "x": 5}]) == [("body[].x", "1", "5")]
    assert [(place, reference) for place, _, reference in places([one, other], [one])] == [("body[] v/b", "not listed")]


def test_names_of_a_brokers_own_are_words_in_braces() -> None:
    given = {"node": "rabbit@here", "text": "at rabbit@here: <0.12.3> on 2026-01-02 3:04:05"}
    assert normalised(given, {"node": "rabbit@here"}) == {"node": "{node}", "text": "at {node}: {pid} on {time}"}


def test_lists_keep_the_objects_of_the_comparison_alone() -> None:
    mine, others = {"name": "q", "vhost": "compare"}, {"name": "q", "vhost": "/"}
    assert own([mine, others]) == [mine]
    assert own({"items": [mine, others], "page": 1}) == {"items": [mine], "page": 1}
    assert own(["text"]) == ["text"]


def test_differences_are_equal_where_all_their_parts_are() -> None:
    assert Difference("a", "b", "c", "d") == Difference("a", "b", "c", "d")
