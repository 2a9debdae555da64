"""An observer that notes what it is told of operators' changes."""

from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.metadata.records import Change, StoredParameter
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.observer import Observer


class Watcher(Observer):
    """`changes` are those of the configuration, `targets` the names of what works by another policy now."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.targets: list[str] = []

    def configured(self, change: Change) -> None:
        self.changes.append(change)

    def policy_changed(self, target: Queue | Exchange) -> None:
        self.targets.append(target.name)

    def told(self) -> list[str]:
        """What was put and dropped since the last time, such as `+parameter / vhost-limits limits`."""
        changes, self.changes = self.changes, []
        return [said(change) for change in changes]

    def touched(self) -> list[str]:
        """The names since the last time, sorted."""
        targets, self.targets = self.targets, []
        return sorted(targets)


def said(change: Change) -> str:
    record = change.record
    kind = type(record).__name__.removeprefix("Stored").lower()
    slots = [slot for slot in ("vhost", "component", "user", "name") if slot in record.__slots__]
    names = [getattr(record, slot) for slot in slots if slot != "user" or not isinstance(record, StoredParameter)]
    return " ".join([("+" if change.put else "-") + kind, *names])
