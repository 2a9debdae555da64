"""The numbers of open connections and channels by virtual host and by user, to which limits apply."""


class ConnectionCounts:
    """The open connections and channels of a node. `channels` counts those of all users."""

    __slots__ = ("channels", "_vhosts", "_users", "_channels")

    def __init__(self) -> None:
        self.channels = 0
        self._vhosts: dict[str, int] = {}
        self._users: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def in_vhost(self, vhost: str) -> int:
        """Return the number of open connections to a virtual host."""
        return self._vhosts.get(vhost, 0)

    def of_user(self, user: str) -> int:
        """Return the number of open connections of a user."""
        return self._users.get(user, 0)

    def channels_of_user(self, user: str) -> int:
        return self._channels.get(user, 0)

    def connected(self, vhost: str, user: str) -> None:
        count(self._vhosts, vhost, 1)
        count(self._users, user, 1)

    def disconnected(self, vhost: str, user: str) -> None:
        count(self._vhosts, vhost, -1)
        count(self._users, user, -1)

    def channel_opened(self, user: str) -> None:
        self.channels += 1
        count(self._channels, user, 1)

    def channel_closed(self, user: str) -> None:
        self.channels -= 1
        count(self._channels, user, -1)


def count(numbers: dict[str, int], name: str, by: int) -> None:
    """Add `by` to the count of a name. Names with a count of 0 are removed, because clients choose some of them."""
    number = numbers.get(name, 0) + by
    assert number >= 0
    if number:
        numbers[name] = number
    else:
        del numbers[name]
