"""Lists: which of their items are asked for, in which order, and what of each.

A list is not made whole if a page of it is wanted in the order it has anyway. Whatever is made is made in short slices,
between which the broker serves others; so objects may be gone by the time they are described.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from warren.broker.core.metadata.patterns import QUERY_SEARCH_S, Pattern, query_pattern
from warren.broker.plugin import Invalid

from ..http.responses import HTTPError, Pieces, Response, bad, json_of

T = TypeVar("T")
R = TypeVar("R")
Item = dict[str, object]
Query = Mapping[str, str]

SLICE_S = 0.0002  # what a message may have to wait for, besides what it takes anyway
RUN = 500  # objects that are sorted at once: up to 2 ms
TEXT_BYTES = 64 << 10  # of the pieces of an answer
PAGE_SIZE, PAGE_SIZE_LIMIT = 100, 500
PATTERN_S, NAME_S = 0.02, 2e-5  # processor time for all names together: so much, and so much more for each
MOMENT_S = 1e-6
BAD_PAGE = "Pagination parameters are invalid"


class Listing(Generic[T]):
    """Objects in the order in which they are listed unless another is asked for.

    Objects that are no list are read in slices, so they must not come from what may change meanwhile.
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
        self.objects = objects
        self.describe = describe
        self.name = name
        self.order = order


def pattern_of(text: str) -> Pattern:
    """Raises HTTPError (400) for a pattern that is none, or too large."""
    try:
        return query_pattern(text, ignore_case=True)
    except Invalid:
        raise bad(BAD_PAGE) from None


class Page:
    """What part of a list is asked for. Raises HTTPError (400)."""

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
            raise HTTPError(
                400,
                "invalid_pagination_parameters",
                f"Invalid pagination parameters: page number {self.number}, page size {size}",
            )

    def wants(self, name: str) -> bool:
        """Whether the filter takes it. Raises HTTPError (400) for a pattern that takes too long."""
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
        """Raises HTTPError (400) beyond the end."""
        first = (self.number - 1) * self.size
        if first >= len(matching) and self.number > 1:
            raise HTTPError(
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


async def answered(listing: Listing[Any], query: Query) -> Response:
    """Raises HTTPError (400)."""
    page = Page(query) if listing.name is not None and "page" in query else None
    chosen = chosen_columns(query)
    reverse = query.get("sort_reverse", "").lower() == "true"
    given, order = listing.objects, listing.order
    if isinstance(given, list):
        objects = given
    elif order is not None:
        objects, order = await sorted_in_slices(given, order), None
    else:
        objects = await in_slices(given, itself)
    total = len(objects)
    if page is not None:
        name = listing.name
        assert name is not None
        objects = await chosen_in_slices(objects, lambda one: page.wants(name(one)))
    matching = len(objects)
    if order is not None:
        objects = await sorted_in_slices(objects, order)
    sort = query.get("sort", "")
    if sort == "name" and listing.name is not None:
        objects = await sorted_in_slices(objects, listing.name, reverse)
    elif sort:
        path = sort.split(".")
        # What is shown is described again: to keep all that were made would cost more, in memory and to be collected.
        objects = await sorted_in_slices(objects, lambda one: rank(at(listing.describe(one), path)), reverse)
    elif reverse:
        objects = objects[::-1]
    if page is not None:
        objects = page.cut(objects)
    items = len(objects)
    comma = b""

    def text_of(one: Any) -> bytes:
        nonlocal comma
        text = comma + json_of(pruned(listing.describe(one), chosen))
        comma = b","
        return text

    texts = await joined_in_slices(map(text_of, given if objects is given else emptied(objects)))
    if page is None:
        return Response(200, Pieces([b"[", *texts, b"]"]))
    envelope = json_of(page.envelope(total, matching, items))
    return Response(200, Pieces([envelope[:-1] + b',"items":[', *texts, b"]}"]))


async def sorted_in_slices(objects: Iterable[T], key: Callable[[T], Any], reverse: bool = False) -> list[T]:
    """The same as `sorted`, by runs that are sorted in a turn of the loop each, and merged some at a time."""
    runs: list[list[tuple[Any, T]]] = [[]]
    turn = Turn()
    for one in objects:
        runs[-1].append((key(one), one))
        ends = len(runs[-1]) == RUN
        if ends:
            runs[-1].sort(key=by_key, reverse=reverse)
            runs.append([])
        if ends or turn.is_over():
            await turn.next()
    runs[-1].sort(key=by_key, reverse=reverse)
    if len(runs) == 1:
        return [one for _, one in runs[0]]
    return await in_slices(heapq.merge(*map(emptied, runs), key=by_key, reverse=reverse), by_object)


def emptied(objects: list[T]) -> Iterator[T]:
    """All of the list from its front, let go one by one: to free very many objects at once would hold the loop."""
    objects.reverse()
    while objects:
        yield objects.pop()


by_key, by_object = itemgetter(0), itemgetter(1)


class Turn:
    """The rest of a slice of work in one turn of the loop."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_S

    def is_over(self) -> bool:
        return time.perf_counter() >= self._until

    async def next(self) -> None:
        """Let others be served, and begin another slice."""
        await asyncio.sleep(0)
        self._until = time.perf_counter() + SLICE_S


async def in_slices(objects: Iterable[T], make: Callable[[T], R]) -> list[R]:
    """What is made of each."""
    made = []
    turn = Turn()
    for one in objects:
        made.append(make(one))
        if turn.is_over():
            await turn.next()
    return made


async def chosen_in_slices(objects: Iterable[T], wants: Callable[[T], bool]) -> list[T]:
    """Those that are wanted."""
    chosen = []
    turn = Turn()
    for one in objects:
        if wants(one):
            chosen.append(one)
        if turn.is_over():
            await turn.next()
    return chosen


async def each_in_slices(objects: Iterable[T], look: Callable[[T], object]) -> None:
    """Look at each, and keep nothing."""
    turn = Turn()
    for one in objects:
        look(one)
        if turn.is_over():
            await turn.next()


async def joined_in_slices(texts: Iterable[bytes]) -> list[bytes]:
    """The texts, made in slices, in pieces of TEXT_BYTES: one for each object would be freed all at once."""
    pieces: list[bytes] = []
    gathered: list[bytes] = []
    size = 0
    turn = Turn()
    for text in texts:
        gathered.append(text)
        size += len(text)
        if size >= TEXT_BYTES:
            pieces.append(b"".join(gathered))
            gathered, size = [], 0
        if turn.is_over():
            await turn.next()
    pieces.append(b"".join(gathered))
    return pieces


def itself(one: T) -> T:
    return one


def whole(text: str) -> int:
    """Raises HTTPError (400)."""
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
