"""Garbage collections: short ones at any time, full ones only when they delay nobody."""

import asyncio
import gc
import time
from collections.abc import Iterator
from types import SimpleNamespace
from weakref import ref

import pytest

from tests.support.polling import until_async
from tests.support.speed import within
from warren.broker.core.metadata.records import Change, StoredBinding
from warren.broker.runtime import garbage_collection
from warren.broker.runtime.garbage_collection import (
    IDLE_SHARE,
    LONG_INTERVAL_S,
    MODERATE_HEAP,
    SHORTAGE_INTERVAL_S,
    SMALL_HEAP,
    THRESHOLDS,
    FullCollections,
    Heap,
)

BUSY, IDLE = IDLE_SHARE * 2, IDLE_SHARE / 2
LONG_S = 0.5
OBJECTS = 200_000
SHORT_MS = 10


class FakeHeap(Heap):
    """A heap: `new` is whether objects have become old, `took_s` the duration of each full collection."""

    def __init__(self) -> None:
        self.size = 0
        self.new = True
        self.took_s = LONG_S
        self.collections = 0

    def blocks(self) -> int:
        return self.size

    def has_new(self) -> bool:
        return self.new

    def collect(self) -> tuple[int, float]:
        self.collections += 1
        return 7, self.took_s


class Place:
    """The full collections of a large heap."""

    def __init__(self) -> None:
        self.heap = FakeHeap()
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self.full = FullCollections(lambda *line: self.log.append(line), self.heap)
        self.heap.size = MODERATE_HEAP


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*THRESHOLDS)
    yield
    gc.set_threshold(*before)


def young_collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats()[:2])


@pytest.mark.usefixtures("thresholds")
def test_no_full_collection_comes_by_itself_and_each_other_one_is_of_few_objects() -> None:
    full = gc.get_stats()[2]["collections"]
    young = young_collections()
    kept = [[number] for number in range(OBJECTS)]
    assert gc.get_stats()[2]["collections"] == full
    assert young_collections() - young >= OBJECTS // THRESHOLDS[0] // 2
    assert len(gc.get_objects(0)) + len(gc.get_objects(1)) < THRESHOLDS[0] * (THRESHOLDS[1] + 2)
    assert len(kept) == OBJECTS


LOGGED = [("full_collection", "info", {"ms": 500, "objects": 7})]


@pytest.mark.parametrize(
    ("blocks", "new", "took_s", "looks", "collections"),
    [
        pytest.param(SMALL_HEAP - 1, True, 0.001, [(0, BUSY), (10, BUSY)], [1, 2], id="small"),
        pytest.param(MODERATE_HEAP - 1, True, LONG_S, [(0, BUSY), (50, BUSY), (60, BUSY)], [1, 1, 2], id="moderate"),
        pytest.param(MODERATE_HEAP, True, LONG_S, [(0, BUSY), (180, BUSY)], [0, 0], id="large and busy"),
        pytest.param(
            *(MODERATE_HEAP, True, LONG_S, [(10, IDLE), (20, IDLE), (10 + LONG_INTERVAL_S, IDLE)], [1, 1, 2]),
            id="large and idle",
        ),
        pytest.param(0, False, LONG_S, [(0, IDLE)], [0], id="without old objects"),
    ],
)
def test_a_larger_heap_is_collected_more_rarely(
    place: Place, blocks: int, new: bool, took_s: float, looks: list[tuple[float, float]], collections: list[int]
) -> None:
    place.heap.size, place.heap.new, place.heap.took_s = blocks, new, took_s
    counts = []
    for now_s, share in looks:
        place.full.collect_if_due(now_s, share)
        counts.append(place.heap.collections)
    assert counts == collections
    assert place.log == LOGGED * (collections[-1] if took_s == LONG_S else 0)


def test_a_shortage_of_memory_is_a_reason_to_collect_once_a_minute(place: Place) -> None:
    place.full.collect_in_shortage(0)
    place.full.collect_in_shortage(5)
    assert place.heap.collections == 1
    place.full.collect_in_shortage(SHORTAGE_INTERVAL_S)
    assert place.heap.collections == 2


def test_a_larger_heap_is_not_collected_while_very_many_of_its_objects_will_soon_be_freed(place: Place) -> None:
    transients = True
    place.full.has_transients = lambda: transients
    place.full.collect_if_due(0, IDLE)
    place.full.collect_in_shortage(0)
    assert place.heap.collections == 0
    transients = False
    place.full.collect_if_due(10, IDLE)
    place.full.collect_in_shortage(10 + SHORTAGE_INTERVAL_S)
    assert place.heap.collections == 2


def test_young_objects_are_collected_though_the_collector_counts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_s, looks = [0.0], list[int]()

    def thread_time() -> float:
        looks.append(1)
        return worked_s[-1]

    monkeypatch.setattr(garbage_collection, "YOUNG_S", 0)
    monkeypatch.setattr(garbage_collection, "time", SimpleNamespace(thread_time=thread_time))

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    async def test() -> None:
        task = asyncio.ensure_future(garbage_collection.collect_young())
        young = ref(Cycle())
        await until_async(lambda: len(looks) >= 10)
        assert young() is not None, "the loop has hardly worked"
        worked_s.append(garbage_collection.WORKED_S)
        await until_async(lambda: young() is None)
        task.cancel()

    gc.disable()
    try:
        asyncio.run(test())
    finally:
        gc.enable()


def test_what_is_made_between_two_young_collections_is_collected_in_a_short_turn() -> None:
    """The deletion of a virtual host makes the most: its records wait until they are stored."""
    gc.disable()
    try:
        assert any(within(young_collection_ms(), SHORT_MS) for _ in range(10))  # another process may use the caches
    finally:
        gc.enable()


def young_collection_ms() -> float:
    gc.collect(1)
    records, begun_s = [], time.thread_time()
    while time.thread_time() < begun_s + garbage_collection.YOUNG_S + garbage_collection.WORKED_S:
        records.append(Change(False, StoredBinding("v", "amq.topic", "queue", "q", "k", b"")))
    begun_s = time.thread_time()
    gc.collect(1)
    return (time.thread_time() - begun_s) * 1000
