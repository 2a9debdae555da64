"""Whose publish or delivery it is, as the firehose and the message log tell of it."""

from __future__ import annotations

from collections import deque


class Origin:
    """A channel: its connection by name, its number, its virtual host, its user.

    upstream, link  of what a federation link brings: the upstream's name, and the queue there that the link consumes
    unconfirmed     what the message log notes until its publishes are confirmed; None while it notes nothing
    """

    __slots__ = ("connection", "channel", "vhost", "user", "upstream", "link", "unconfirmed")

    def __init__(self, connection: str, channel: int, vhost: str, user: str) -> None:
        self.connection = connection
        self.channel = channel
        self.vhost = vhost
        self.user = user
        self.upstream = ""
        self.link = ""
        self.unconfirmed: deque[tuple[int, int, int]] | None = None
