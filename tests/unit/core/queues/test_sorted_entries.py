"""Sorted entries come and go as those of a plain sorted list."""

from random import Random

import pytest

from warren.broker.core.queues.sorted_entries import BLOCK, Entry, SortedEntries

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
