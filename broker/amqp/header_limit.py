"""The limit of a header frame: the headers of a message that fit the frame_max of a receiver."""

from . import properties
from .field_table import Table, Value

DEATHS = "x-death"
OMITTED = "x-headers-omitted"
OMITTED_BYTES = 32  # of this header, and the length of the table


def within(raw: bytes, limit: int) -> bytes:
    """Return properties of at most `limit` bytes, without the headers that do not fit.

    The oldest entries of x-death are omitted first, then the longest headers, whose number is in `x-headers-omitted`.
    All other properties together have less than 3 KiB, and frame_max is 4 KiB at least.
    """
    headers = properties.headers(raw)
    if headers is None or len(raw) <= limit:
        return raw
    excess = len(raw) + OMITTED_BYTES - limit
    kept: dict[int, tuple[str, Value]] = dict(enumerate(headers.items()))
    sizes = {at: len(Table.encode_items([item])) for at, item in kept.items()}
    for at, (name, (letter, value)) in list(kept.items()):
        if name == DEATHS and isinstance(value, list):
            entries = list(value)
            while len(entries) > 1 and excess > 0:
                removed = Table.encode_items([("", entries.pop())])
                excess -= len(removed) - 1
            kept[at] = name, (letter, entries)
            sizes[at] = len(Table.encode_items([kept[at]]))
    omitted = 0
    for at in sorted(sizes, key=lambda at: -sizes[at]):
        if excess <= 0:
            break
        excess -= sizes[at]
        del kept[at]
        omitted += 1
    fields = list(kept.values())
    if omitted:
        fields.append((OMITTED, ("l", omitted)))
    return properties.replace(raw, properties.HEADERS, Table(Table.encode_items(fields)))
