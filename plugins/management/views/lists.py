"""An object with lists as its fields, which may be very long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from ...http.responses import Pieces, Response, json_of, ok
from ...http.slices import joined_in_slices
from ..framework.pagination import columns_of, prune
from ..framework.request import Request

V = TypeVar("V")
Lists = Mapping[str, Iterable[Mapping[str, object] | None]]
"""The items by the name of the field, each made when it is iterated; None is not in the list."""


async def with_lists(request: Request, item: V, lists: Lists) -> Response[V]:
    """Return the response with an object and its lists, unless the columns of the request leave them out.

    They become JSON in slices.
    """
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
