"""What the whole broker shares: virtual hosts, users, the clock, the journal, and the queues that wait to be pumped."""

from __future__ import annotations

from collections import deque

from .backlog import Budget
from .ports import Clock, Journal, Observer
from .queue import Numbering, Queue
from .registry import Registry
from .users import Users
from .vhost import VHost


class Node:
    """`pending` are the queues that have something to deliver, or somebody new to deliver to."""

    def __init__(
        self,
        name: str,
        cluster_name: str,
        clock: Clock,
        journal: Journal,
        users: Users,
        message_memory_bytes: int = 1 << 62,
    ) -> None:
        self.name = name
        self.cluster_name = cluster_name
        self.clock = clock
        self.journal = journal
        self.users = users
        self.registry = Registry()
        self.vhosts: dict[str, VHost] = {}
        self.observers: list[Observer] = []
        self.pending: deque[Queue] = deque()
        self.numbering = Numbering()
        self.budget = Budget(message_memory_bytes)
        self.open_connections = 0
        self.alarm = ""  # why publishers have to wait, as `low on disk`

    def add_vhost(self, name: str) -> VHost:
        """Create it, or give the one that is there."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = VHost(name, self.registry, self.pending, self.journal, self.numbering, self.budget, self.observers)
            self.vhosts[name] = vhost
        return vhost

    def pump(self) -> None:
        """Deliver what can be delivered now, also what a delivery itself makes ready."""
        pending = self.pending
        while pending:
            pending.popleft().pump()  # one by one: should one fail, the others are still in line
