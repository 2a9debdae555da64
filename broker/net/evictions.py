"""Closes the connections of users and virtual hosts that are deleted (spec/core.md 20.3, 20.4)."""

from __future__ import annotations

from collections.abc import Callable

from ..core.metadata.records import Change, StoredUser, StoredVHost
from ..core.vhost.observer import Observer
from ..session.connection import Connection

Close = Callable[[Callable[[Connection], bool], str], int]


class Evictions(Observer):
    """`close` ends the connections of which something holds, for a reason that they are told."""

    def __init__(self, close: Close) -> None:
        self._close = close

    def configured(self, change: Change) -> None:
        record = change.record
        if change.put:
            return
        if isinstance(record, StoredUser):
            name = record.name
            self._close(lambda one: one.user is not None and one.user.account == name, f"user '{name}' is deleted")
        elif isinstance(record, StoredVHost):
            name = record.name
            self._close(lambda one: one.vhost is not None and one.vhost.name == name, f"vhost '{name}' is deleted")
