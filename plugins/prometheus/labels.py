"""Values of labels."""

from __future__ import annotations


def text(name: str) -> str:
    """Return the name with bytes that are not UTF-8 escaped, so that distinct names stay distinct."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
