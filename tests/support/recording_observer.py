"""An observer that records the changes of configuration and policies of which it is notified."""

from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.metadata.records import Change, StoredParameter
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.observer import Observer


class RecordingObserver(Observer):
    """`changes` are those of the configuration, `targets` the names of queues and exchanges with another policy."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.targets: list[str] = []

    def configured(self, change: Change) -> None:
        self.changes.append(change)

    def policy_changed(self, target: Queue | Exchange) -> None:
        self.targets.append(target.name)

    def take_changes(self) -> list[str]:
        """Return the changes since the last call, such as `+parameter / vhost-limits limits`."""
        changes, self.changes = self.changes, []
        return [describe(change) for change in changes]

    def take_targets(self) -> list[str]:
        """Return the targets since the last call, sorted."""
        targets, self.targets = self.targets, []
        return sorted(targets)


def describe(change: Change) -> str:
    """A change in one line: `+` or `-`, the kind of its record, and what names it."""
    record = change.record
    kind = type(record).__name__.removeprefix("Stored").lower()
    slots = [slot for slot in ("vhost", "component", "user", "name") if slot in record.__slots__]
    names = [getattr(record, slot) for slot in slots if slot != "user" or not isinstance(record, StoredParameter)]
    return " ".join([("+" if change.put else "-") + kind, *names])
