"""Sorted rows against a dictionary."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hypothesis_settings import examples
from warren.broker.core.queues import sorted_rows
from warren.broker.core.queues.sorted_rows import SortedRows


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(sorted_rows, "BLOCK", 4)
    yield
    patch.undo()


keys = st.integers(1, 40)
steps = st.lists(st.tuples(st.sampled_from(("add", "add", "add", "pop", "take", "cut")), keys), max_size=80)


def all_keys(rows: SortedRows) -> list[int]:
    found: list[int] = []
    while some := rows.some_keys(found[-1] + 1 if found else 0):
        found += some
    return found


@given(steps)
@examples(200)
def test_rows_are_those_of_a_dictionary_in_order(steps: list[tuple[str, int]]) -> None:
    rows = SortedRows(2)
    model: dict[int, tuple[int, tuple[int, ...], object]] = {}
    for number, (step, key) in enumerate(steps):
        ordered = sorted(model)
        if step == "add":
            if key not in model:
                model[key] = key, (number, key << 40), f"of {number}"
                rows.add(*model[key])
        elif step == "pop":
            assert rows.get(key) == model.get(key)
            assert rows.pop(key) == model.pop(key, None)
        elif step == "take":
            assert rows.peek(key // 4) == [model[each] for each in ordered[: key // 4]]
            assert rows.take(key // 4) == [model.pop(each) for each in ordered[: key // 4]]
        else:
            cut = rows.cut(key)
            assert list(cut) == [model.pop(each) for each in ordered if each <= key]
        assert list(rows) == [model[each] for each in sorted(model)]
        assert len(rows) == len(model) and all_keys(rows) == sorted(model)
        assert [one for part in rows.objects() for one in part] == [model[each][2] for each in sorted(model)]
        odd = [model[each] for each in sorted(model)[:5] if len(model[each][2]) % 2]
        assert list(rows.matching(lambda of: len(of) % 2 == 1, 5)) == odd
        if model:
            assert (rows.first, rows.last) == (min(model), max(model))


def test_a_row_takes_eight_bytes_for_each_number_and_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "BLOCK", 500)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        rows = SortedRows(4)
        for number in range(10_000):
            rows.add(number, (1 << 40, number, 2, 3))
        taken_bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken_bytes / len(rows) < 8 * 6 * 1.2
