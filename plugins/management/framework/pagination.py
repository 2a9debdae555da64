"""Lists: filtering, sorting, paging and choice of columns, in short slices between which the loop serves others.

Items are made only for the objects of the response. An object may be deleted before its item is made.
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from warren.broker.core.metadata.patterns import QUERY_SEARCH_S, Pattern, query_pattern
from warren.broker.plugin import Invalid

from ...http.responses import HTTPError, Pieces, Response, bad, json_of, ok
from ...http.time_slices import drain, in_slices, joined_in_slices, once_a_turn, sorted_in_slices
from .request import Request

V = TypeVar("V")
Item = dict[str, object]
Query = Mapping[str, str]

PAGE_SIZE, PAGE_SIZE_LIMIT = 100, 500
PATTERN_S, NAME_S = 0.02, 2e-5  # processor time for all names together: a base, and more for each name
MOMENT_S = 1e-6
BAD_PAGE = "Pagination parameters are invalid"


@dataclass(slots=True)
class Listing(Generic[V]):
    """A list of objects with the functions that make its response, a list of V.

    `describe` makes the item of an object. `describe_some` returns a function that makes at least the named fields;
    None if that would not be cheaper. `name` is what pages filter by; None for a list without pages. `order` is
    the sort key of the default order; None if the objects have it. Objects that are not in a list are read in slices,
    so their source must not change meanwhile.
    """

    objects: Iterable[Any]
    describe: Callable[[Any], V]
    name: Callable[[Any], str] | None = None
    order: Callable[[Any], Any] | None = None
    describe_some: Callable[[Collection[str]], Callable[[Any], Any]] | None = None

    def describing(self, names: Collection[str] | None) -> Callable[[Any], Any]:
        """Return a function that makes at least the fields of these names; None are all."""
        return self.describe if names is None or self.describe_some is None else self.describe_some(names)


def pattern_of(text: str) -> Pattern:
    """Return the compiled pattern. Raises HTTPError (400) if it is invalid or too large."""
    try:
        return query_pattern(text, ignore_case=True)
    except Invalid:
        raise bad(BAD_PAGE) from None


def has_pattern(query: Query) -> bool:
    """Return whether a query filters a page by a regular expression."""
    return "page" in query and query.get("name", "") != "" and query.get("use_regex", "").lower() == "true"


class Envelope(msgspec.Struct):
    """A page of a list, of which `items` are the objects."""

    total_count: int
    filtered_count: int
    item_count: int
    page: int
    page_size: int
    page_count: int


class Page:
    """The page that a query asks for. Raises HTTPError (400)."""

    __slots__ = ("number", "size", "first", "end", "filters", "_part", "_pattern", "_left_s")

    def __init__(self, query: Query) -> None:
        self.number = parse_integer(query["page"])
        self.size = parse_integer(query.get("page_size", str(PAGE_SIZE)))
        name, use_regex = query.get("name", ""), has_pattern(query)
        self._part = "" if use_regex else name.casefold()
        self._pattern = pattern_of(name) if use_regex else None
        self._left_s = PATTERN_S
        self.filters = name != ""
        self.first, self.end = (self.number - 1) * self.size, self.number * self.size
        if self.number < 1 or not 1 <= self.size <= PAGE_SIZE_LIMIT:
            size = self.size if "page_size" in query else "undefined"
            text = f"Invalid pagination parameters: page number {self.number}, page size {size}"
            raise HTTPError(400, "invalid_pagination_parameters", text)

    def wants(self, name: str) -> bool:
        """True if the name matches the filter. Raises HTTPError (400) if matching takes too long."""
        if self._pattern is None:
            return self._part in name.casefold()
        self._left_s += NAME_S
        begun = time.thread_time()
        matches = self._pattern.search(name, min(max(self._left_s, MOMENT_S), QUERY_SEARCH_S))
        self._left_s -= time.thread_time() - begun
        if matches is None:
            raise bad(BAD_PAGE)
        return matches

    def check(self, matching: int) -> None:
        """Raises HTTPError (400) for a page after the last one."""
        if self.first >= matching and self.number > 1:
            text = f"Page out of range, page: {self.number} page size: {self.size}, len: {matching}"
            raise HTTPError(400, "page_out_of_range", text)

    def envelope(self, total: int, matching: int, items: int) -> Envelope:
        return Envelope(total, matching, items, self.number, self.size, math.ceil(matching / self.size))


async def list_response(
    listing: Listing[Any], query: Query, searches: asyncio.Lock, count: Callable[[int], object] = lambda size: None
) -> Response[Any]:
    """Return the response of a list; `searches` is held if it filters by a pattern. Raises HTTPError (400).

    `count` is called with the bytes of each piece of it.
    """
    if not has_pattern(query):
        return await make_list(listing, query, count)
    async with once_a_turn(searches):
        return await make_list(listing, query, count)


async def make_list(listing: Listing[Any], query: Query, count: Callable[[int], object]) -> Response[Any]:
    page = Page(query) if listing.name is not None and "page" in query else None
    chosen = columns_of(query)
    reverse = query.get("sort_reverse", "").lower() == "true"
    source, order = listing.objects, listing.order
    if isinstance(source, list):
        objects = source
    elif order is not None:
        objects, order = await sorted_in_slices(source, order), None
    else:
        objects = [one async for one in in_slices(source)]
    total = len(objects)
    if page is not None and page.filters:
        name = listing.name
        assert name is not None
        objects = [one async for one in in_slices(objects) if page.wants(name(one))]
    matching = len(objects)
    end = None
    if page is not None:
        page.check(matching)
        end = page.end
    if order is not None:
        objects = await sorted_in_slices(objects, order)
    sort = query.get("sort", "")
    if sort == "name" and listing.name is not None:
        objects = await sorted_in_slices(objects, listing.name, reverse, end)
    elif sort:
        path = sort.split(".")
        sorted_by = listing.describing((path[0],))
        # Items are made again for the response: keeping all of them would cost more memory and garbage collection.
        objects = await sorted_in_slices(objects, lambda one: rank(at(sorted_by(one), path)), reverse, end)
    elif reverse:
        objects = objects[::-1]
    if page is not None:
        objects = objects[page.first : page.end]
    items = len(objects)
    comma = b""
    describe = listing.describing(chosen)

    def text_of(one: Any) -> bytes:
        nonlocal comma
        text = comma + json_of(prune(describe(one), chosen))
        comma = b","
        return text

    texts = await joined_in_slices(map(text_of, source if objects is source else drain(objects)), count)
    if page is None:
        return Response(200, Pieces([b"[", *texts, b"]"]))
    envelope = json_of(page.envelope(total, matching, items))
    return Response(200, Pieces([envelope[:-1] + b',"items":[', *texts, b"]}"]))


def parse_integer(text: str) -> int:
    """Raises HTTPError (400) if the text is not an integer."""
    if not text.isascii() or not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise bad(BAD_PAGE)
    return int(text)


# Columns: a tree of names; None selects everything below

Columns = dict[str, "Columns | None"]


def columns_of(query: Query) -> Columns | None:
    """Return the columns of a query; None for all."""
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
            if branch is None:  # everything below is chosen already
                break
        if branch is not None:
            branch[last] = None
    return tree


def prune(value: Any, columns: Columns | None) -> Any:
    """Return the chosen parts of an item, also inside lists; unknown names are ignored."""
    if columns is None:
        return value
    if isinstance(value, dict):
        return {name: prune(value[name], below) for name, below in columns.items() if name in value}
    if isinstance(value, list):
        return [prune(one, columns) for one in value]
    return prune(msgspec.to_builtins(value), columns) if isinstance(value, msgspec.Struct) else value


# Sorting


def at(item: Any, path: Sequence[str]) -> object:
    """Return the value at a path, or None."""
    for name in path:
        if not isinstance(item, dict):
            if not isinstance(item, msgspec.Struct):
                return None
            item = msgspec.to_builtins(item)
        item = item.get(name)
    return item


def rank(value: object) -> tuple[int, Any]:
    """Return the sort key of any JSON value: numbers, then texts, then arrays and objects. Null counts as 0."""
    if value is None:
        return 0, 0
    if isinstance(value, (bool, int, float)):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 2, json_of(value)


# A single object with lists as its fields, which may be very long

Lists = Mapping[str, Iterable[object]]
"""The items by the name of the field, each made when it is iterated; None is not in the list."""


async def with_lists(request: Request, item: V, lists: Lists) -> Response[V]:
    """Return a response with an object and its lists, in slices, unless columns of the query leave them out."""
    columns = columns_of(request.query)
    chosen = {name: items for name, items in lists.items() if columns is None or name in columns}
    if not chosen:
        return ok(item)

    def texts() -> Iterator[bytes]:
        head = json_of(prune(item, columns))[:-1]
        yield head
        comma = b"," if len(head) > 1 else b""
        for name, items in chosen.items():
            yield comma + b'"%b":[' % name.encode()
            comma = b""
            below = columns[name] if columns is not None else None
            for one in items:
                if one is None:
                    yield b""
                    continue
                yield comma + json_of(prune(one, below))
                comma = b","
            yield b"]"
            comma = b","
        yield b"}"

    return Response(200, Pieces(await request.wait(joined_in_slices(texts(), request.unread.grow))))
