"""Limits of what is under way for others: in all, and for one source address or user."""

from __future__ import annotations


class Quota:
    """An amount in use, in all and by key. `limit` is the largest sum of all keys, `key_limit` that of one key.

    What one caller takes under his key leaves the rest to the others.
    """

    __slots__ = ("key_limit", "limit", "used", "_by_key")

    def __init__(self, limit: int, key_limit: int) -> None:
        self.limit = limit
        self.key_limit = key_limit
        self.used = 0
        self._by_key: dict[str, int] = {}

    def take(self, key: str, amount: int = 1) -> bool:
        """Add to what is in use; False where that would be more than a limit, and nothing was added."""
        used = self._by_key.get(key, 0) + amount
        if used > self.key_limit or self.used + amount > self.limit:
            return False
        self._by_key[key] = used
        self.used += amount
        return True

    def give_back(self, key: str, amount: int = 1) -> None:
        """Subtract what was taken."""
        if not amount:
            return
        self.used -= amount
        self._by_key[key] -= amount
        if not self._by_key[key]:
            del self._by_key[key]
