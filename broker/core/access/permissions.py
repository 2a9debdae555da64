"""Permissions of a user in a virtual host, by names of objects and by routing keys."""

from ..metadata.patterns import Pattern, SearchTime


class Permission:
    """The patterns of names that a user may configure, write and read."""

    __slots__ = ("configure", "write", "read", "_patterns")

    def __init__(self, configure: str, write: str, read: str) -> None:
        """Raises Invalid."""
        self.configure = configure
        self.write = write
        self.read = read
        self._patterns = {"configure": Pattern(configure), "write": Pattern(write), "read": Pattern(read)}

    def allows(self, what: str, name: str) -> bool:
        """Return whether a pattern matches the name. `what` is configure, write or read."""
        return self._patterns[what].matches(name)

    @property
    def exhausted(self) -> list[str]:
        """The patterns that allow nothing any more, because a search took too long."""
        return [pattern.text for pattern in self._patterns.values() if pattern.exhausted]


class TopicPermission:
    """Patterns on the routing keys of one topic exchange, in which `{username}` and `{vhost}` are variables.

    `{client_id}` is a variable for other protocols; in AMQP 0-9-1 it is literal text, as in RabbitMQ.
    """

    __slots__ = ("write", "read", "_patterns")

    def __init__(self, user: str, vhost: str, write: str, read: str) -> None:
        """Raises Invalid."""
        self.write = write
        self.read = read
        variables = {"username": user, "vhost": vhost}
        self._patterns = {"write": Pattern(write, variables), "read": Pattern(read, variables)}

    def allows(self, what: str, routing_key: str) -> bool:
        """Return whether a pattern matches the routing key. `what` is write or read."""
        return self._patterns[what].matches(routing_key)

    def allows_in(self, searches: SearchTime, what: str, routing_key: str) -> bool:
        """Return whether a pattern matches the routing key in the time that is left for these searches."""
        return searches.search(self._patterns[what], routing_key) is True

    @property
    def exhausted(self) -> list[str]:
        """The patterns that allow nothing any more, because a search took too long."""
        return [pattern.text for pattern in self._patterns.values() if pattern.exhausted]
