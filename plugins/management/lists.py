"""Lists: which of their items are asked for, in which order, and what of each (spec/operator.md 1.4).

A list is not made whole if a page of it is wanted in the order it has anyway. Whatever is made is made in short slices,
between which the broker serves others; so objects may be gone by the time they are described.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from broker.plugin import QUERY_SEARCH_S, Invalid, Pattern, query_pattern

from .answers import Answer, Pieces, Refusal, bad, json_of

T = TypeVar("T")
Item = dict[str, object]
Query = Mapping[str, str]

SLICE_S = 0.0002  # what a message may have to wait for, besides what it takes anyway
RUN = 1_000  # objects that are sorted at once
PAGE_SIZE, PAGE_SIZE_LIMIT = 100, 500
PATTERN_S, NAME_S = 0.02, 2e-5  # processor time for all names together: so much, and so much more for each
MOMENT_S = 1e-6
BAD_PAGE = "Pagination parameters are invalid"


class Listing(Generic[T]):
    """Objects in the order in which they are listed unless another is asked for.

    `describe` makes one's document; `name` is what pages are filtered by, None where there are no pages. `order` is the
    key of that order, None where the objects are in it already.
    """

    __slots__ = ("objects", "describe", "name", "order")

    def __init__(
        self,
        objects: Iterable[T],
        describe: Callable[[T], Item],
        name: Callable[[T], str] | None = None,
        order: Callable[[T], Any] | None = None,
    ) -> None:
        self.objects = list(objects)
        self.describe = describe
        self.name = name
        self.order = order


def pattern_of(text: str) -> Pattern:
    """Raises Refusal (400) for a pattern that is none, or too large."""
    try:
        return query_pattern(text, ignore_case=True)
    except Invalid:
        raise bad(BAD_PAGE) from None


class Page:
    """What part of a list is asked for. Raises Refusal (400)."""

    __slots__ = ("number", "size", "_part", "_pattern", "_left_s")

    def __init__(self, query: Query) -> None:
        self.number = whole(query["page"])
        self.size = whole(query.get("page_size", str(PAGE_SIZE)))
        name = query.get("name", "")
        use_regex = name and query.get("use_regex", "").lower() == "true"
        self._part = "" if use_regex else name.casefold()
        self._pattern = pattern_of(name) if use_regex else None
        self._left_s = PATTERN_S
        if self.number < 1 or not 1 <= self.size <= PAGE_SIZE_LIMIT:
            size = self.size if "page_size" in query else "undefined"
            raise Refusal(
                400,
                "invalid_pagination_parameters",
                f"Invalid pagination parameters: page number {self.number}, page size {size}",
            )

    def wants(self, name: str) -> bool:
        """Whether the filter takes it. Raises Refusal (400) for a pattern that takes too long."""
        if self._pattern is None:
            return self._part in name.casefold()
        self._left_s += NAME_S
        begun = time.process_time()
        found = self._pattern.search(name, min(max(self._left_s, MOMENT_S), QUERY_SEARCH_S))
        self._left_s -= time.process_time() - begun
        if found is None:
            raise bad(BAD_PAGE)
        return found

    def cut(self, matching: Sequence[T]) -> list[T]:
        """Raises Refusal (400) beyond the end."""
        first = (self.number - 1) * self.size
        if first >= len(matching) and self.number > 1:
            raise Refusal(
                400,
                "page_out_of_range",
                f"Page out of range, page: {self.number} page size: {self.size}, len: {len(matching)}",
            )
        return list(matching[first : first + self.size])

    def envelope(self, total: int, matching: int, items: int) -> Item:
        return {
            "total_count": total,
            "filtered_count": matching,
            "item_count": items,
            "page": self.number,
            "page_size": self.size,
            "page_count": math.ceil(matching / self.size),
        }


async def answered(listing: Listing[Any], query: Query) -> Answer:
    """Raises Refusal (400)."""
    page = Page(query) if listing.name is not None and "page" in query else None
    chosen = chosen_columns(query)
    reverse = query.get("sort_reverse", "").lower() == "true"
    objects = listing.objects
    total = len(objects)
    if page is not None:
        name = listing.name
        assert name is not None
        wanted = await in_slices(objects, lambda one: page.wants(name(one)))
        objects = [one for one, wants in zip(objects, wanted, strict=True) if wants]
    matching = len(objects)
    if listing.order is not None:
        objects = await sorted_in_slices(objects, listing.order)
    sort = query.get("sort", "")
    if sort == "name" and listing.name is not None:
        objects = await sorted_in_slices(objects, listing.name, reverse)
    elif sort:
        path = sort.split(".")
        # What is shown is described again: to keep all that were made would cost more, in memory and to be collected.
        objects = await sorted_in_slices(objects, lambda one: rank(at(listing.describe(one), path)), reverse)
    elif reverse:
        objects.reverse()
    if page is not None:
        objects = page.cut(objects)
    pieces = await in_slices(objects, lambda one: b"," + json_of(pruned(listing.describe(one), chosen)))
    return whole_answer(pieces, page, total, matching)


def whole_answer(pieces: list[bytes], page: Page | None, total: int, matching: int) -> Answer:
    """Join documents that begin with the comma that parts them."""
    if pieces:
        pieces[0] = pieces[0].removeprefix(b",")
    if page is None:
        return Answer(200, Pieces([b"[", *pieces, b"]"]))
    envelope = json_of(page.envelope(total, matching, len(pieces)))
    return Answer(200, Pieces([envelope[:-1] + b',"items":[', *pieces, b"]}"]))


async def sorted_in_slices(objects: list[T], key: Callable[[T], Any], reverse: bool = False) -> list[T]:
    """The same as `sorted`, by runs that are sorted in a turn of the loop each, and merged some at a time."""
    keys = await in_slices(objects, key)
    runs = []
    for start in range(0, len(objects), RUN):
        within = range(start, min(start + RUN, len(objects)))
        runs.append(sorted(within, key=keys.__getitem__, reverse=reverse))
        await asyncio.sleep(0)
    if len(runs) < 2:
        return [objects[index] for run in runs for index in run]
    return await in_slices(heapq.merge(*runs, key=keys.__getitem__, reverse=reverse), objects.__getitem__)


async def in_slices(objects: Iterable[T], make: Callable[[T], Any]) -> list[Any]:
    """What is made of each."""
    made = []
    until = time.perf_counter() + SLICE_S
    for one in objects:
        made.append(make(one))
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + SLICE_S
    return made


def whole(text: str) -> int:
    """Raises Refusal (400)."""
    if not text.isascii() or not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise bad(BAD_PAGE)
    return int(text)


# Columns: a tree of the names that are wanted, None for all below

Columns = dict[str, "Columns | None"]


def chosen_columns(query: Query) -> Columns | None:
    """None for all of them."""
    text = query.get("columns", "")
    if not text:
        return None
    tree: Columns = {}
    for column in text.split(","):
        *above, last = column.strip().split(".")
        branch: Columns | None = tree
        for name in above:
            assert branch is not None
            branch = branch.setdefault(name, {})
            if branch is None:  # all of it is wanted anyway
                break
        if branch is not None:
            branch[last] = None
    return tree


def pruned(value: Any, columns: Columns | None) -> Any:
    """What is named of an object, also inside of lists of them. Names that there are not are left out."""
    if columns is None:
        return value
    if isinstance(value, list):
        return [pruned(one, columns) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: pruned(value[name], below) for name, below in columns.items() if name in value}


# Sorting


def at(item: Any, path: Sequence[str]) -> object:
    """None where there is nothing."""
    for name in path:
        if not isinstance(item, dict):
            return None
        item = item.get(name)
    return item


def rank(value: object) -> tuple[int, Any]:
    """Numbers come before words, these before what is made of parts. What is missing counts as 0."""
    if value is None:
        return 0, 0
    if isinstance(value, (bool, int, float)):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 2, json_of(value)
