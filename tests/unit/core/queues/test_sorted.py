"""Sorted entries and sorted rows, compared with plain sorted lists."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hypothesis_settings import examples
from tests.support.traced_memory import traced_memory
from warren.broker.core.queues import sorted_rows
from warren.broker.core.queues.sorted_entries import BLOCK, Entry, SortedEntries
from warren.broker.core.queues.sorted_rows import SortedRows

MOST = 4 * BLOCK


def all_of(entries: SortedEntries) -> list[Entry]:
    return [entry for block in entries._blocks for entry in block]


@pytest.mark.parametrize("seed", range(4))
def test_entries_come_and_go_in_order(seed: int) -> None:
    random = Random(seed)
    entries, expected = SortedEntries(), list[Entry]()
    for least in (MOST, 0, BLOCK, 0):  # it grows, becomes empty, and again
        while len(expected) != least:
            entry = random.randrange(50), random.random()
            if len(expected) < least:
                entries.add(entry)
                expected.append(entry)
            else:
                pop_one(entries, expected, random)
        expected.sort()
        assert all_of(entries) == expected and bool(entries) == bool(expected)
        assert all(0 < len(block) <= BLOCK for block in entries._blocks) or not expected


def pop_one(entries: SortedEntries, expected: list[Entry], random: Random) -> None:
    start: Entry = random.choice([min(expected), (random.choice(expected)[0],), random.choice(expected)])
    entry = min([entry for entry in expected if entry >= start])
    assert entries.first() == min(expected)
    assert (entries.pop_first() if entry == min(expected) else entries.pop_from(start)) == entry
    expected.remove(entry)


def test_no_block_is_longer_whatever_the_order() -> None:
    for numbers in (range(MOST), range(MOST, 0, -1)):
        entries = SortedEntries()
        for number in numbers:
            entries.add((number,))
        assert all_of(entries) == [(number,) for number in sorted(numbers)]
        assert max(map(len, entries._blocks)) <= BLOCK and len(entries._blocks) <= 2 * MOST // BLOCK


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
    with traced_memory() as memory:
        rows = SortedRows(4)
        for number in range(10_000):
            rows.add(number, (1 << 40, number, 2, 3))
    assert memory.held_bytes / len(rows) < 8 * 6 * 1.2
