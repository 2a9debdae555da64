"""Names that clients chose, as labels may have them."""

from __future__ import annotations


def text(name: str) -> str:
    """What is no UTF-8 in it is spelled out, so that two names stay two."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
