"""The interface of observers of stored settings, which lies below virtual hosts, users and parameters."""

from __future__ import annotations

from .records import Change


class ChangeObserver:
    """Notified of each change to virtual hosts, users, permissions, topic permissions and parameters."""

    def configured(self, change: Change) -> None:
        """A record was put or dropped; policies are parameters."""
