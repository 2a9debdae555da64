"""Limits of resources in use: in total, and by source address or user."""

from __future__ import annotations


class Quota:
    """An amount in use, in total and by key.

    `key_limit` is below `limit`, so that one key cannot use up everything.
    """

    __slots__ = ("key_limit", "limit", "used", "_by_key")

    def __init__(self, limit: int, key_limit: int) -> None:
        self.limit = limit
        self.key_limit = key_limit
        self.used = 0
        self._by_key: dict[str, int] = {}

    def take(self, key: str, amount: int = 1) -> bool:
        """Add to the amount in use; return False, without adding, if a limit would be exceeded."""
        used = self._by_key.get(key, 0) + amount
        if used > self.key_limit or self.used + amount > self.limit:
            return False
        self._by_key[key] = used
        self.used += amount
        return True

    def release(self, key: str, amount: int = 1) -> None:
        """Subtract what was taken."""
        if not amount:
            return
        self.used -= amount
        self._by_key[key] -= amount
        if not self._by_key[key]:
            del self._by_key[key]
