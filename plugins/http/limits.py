"""Limits of what clients use of the node, in total and by source address or user: requests, bytes, streams, scrapes."""


class Quota:
    """An amount in use, in total and by key, which is the source address or the user.

    `key_limit` is below `limit`, so that one key cannot use up everything. A key that is alone may exceed it; the
    excess does not count against the total.
    """

    __slots__ = ("key_limit", "limit", "used", "_by_key")

    def __init__(self, limit: int, key_limit: int) -> None:
        self.limit = limit
        self.key_limit = key_limit
        self.used = 0
        self._by_key: dict[str, int] = {}

    def of(self, key: str) -> int:
        """Return the amount that one key uses."""
        return self._by_key.get(key, 0)

    def take(self, key: str, amount: int = 1) -> bool:
        """Add to the amount in use; return False, without adding, if a limit would be exceeded."""
        if not self.has_room(key, amount):
            return False
        self.add(key, amount)
        return True

    def has_room(self, key: str, amount: int, own: int | None = None) -> bool:
        """True if no limit would be exceeded. `own` is the amount of the caller, who may exceed
        them if nobody else uses anything.
        """
        used = self._by_key.get(key, 0)
        counted = min(own, self.key_limit) if own is not None else None
        key_has_room = used + amount <= self.key_limit or used == own
        return key_has_room and (self.used + amount <= self.limit or self.used == counted)

    def add(self, key: str, amount: int) -> None:
        """Add to the amount in use, whatever the limits."""
        before = self._by_key.get(key, 0)
        self._by_key[key] = before + amount
        self.used += min(before + amount, self.key_limit) - min(before, self.key_limit)
        if not self._by_key[key]:
            del self._by_key[key]

    def release(self, key: str, amount: int = 1) -> None:
        """Subtract from the amount in use."""
        self.add(key, -amount)
