"""The interface of observers of stored settings. Virtual hosts, users and parameters notify it."""

from __future__ import annotations

from .records import Change


class ChangeObserver:
    """Notified of each change to virtual hosts, users, permissions, topic permissions and parameters."""

    def configured(self, change: Change) -> None:
        """Notify of a record that was put or deleted. Policies are parameters."""
