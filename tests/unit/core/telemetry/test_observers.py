"""The observers of a node: each gets every notification, in the order in which they were added."""

from collections.abc import Callable

import pytest

from tests.support.session import connected, new_node
from warren.broker.core.metadata.records import ChangeObserver
from warren.broker.core.vhost.observer import Observer, Observers

NOTIFICATIONS = sorted(
    name for class_ in (ChangeObserver, Observer) for name in vars(class_) if not name.startswith("_")
)


def listening(name: str, log: list[tuple[str, str, tuple[object, ...]]]) -> Observer:
    """An observer that logs its name with each notification and its arguments."""

    def logs(notification: str) -> Callable[..., None]:
        return lambda self, *arguments: log.append((name, notification, arguments))

    return type("Logging", (Observer,), {each: logs(each) for each in NOTIFICATIONS})()


def test_each_notification_reaches_all_observers_in_order() -> None:
    log: list[tuple[str, str, tuple[object, ...]]] = []
    node = new_node()
    node.observers.add(listening("one", log), listening("two", log))
    channel = connected(node).channel(1)
    channel.exchange("x", "direct")
    channel.declare("q", durable=True)
    for end in (channel.unbind, channel.delete):
        channel.bind("q", "x", "k")
        channel.cancel(channel.consume("q"))
        node.policies.set("/", "p", ".*", {"max-length": len(log)}, 0, "all")
        end(*("q", "x", "k") if end == channel.unbind else ("q",))
    channel.delete_exchange("x")
    assert [(name, *rest) for name, *rest in log[::2]] == [("one", *rest) for _, *rest in log[1::2]]
    assert {name for name, *_ in log[1::2]} == {"two"}
    assert {notification for _, notification, _ in log} == set(NOTIFICATIONS)


def test_an_observer_that_is_removed_meanwhile_gets_this_notification_and_no_other() -> None:
    log: list[str] = []
    observers = Observers()

    class Leaving(Observer):
        def queue_declared(self, queue: object) -> None:
            log.append("leaving")
            observers.remove(self)

    class Staying(Observer):
        def queue_declared(self, queue: object) -> None:
            log.append("staying")

    leaving, staying = Leaving(), Staying()
    observers.add(leaving, staying)
    assert leaving in observers and len(observers) == 2
    for _ in range(2):
        for observer in observers:
            observer.queue_declared(None)  # type: ignore[arg-type]
    assert log == ["leaving", "staying", "staying"]
    assert list(observers) == [staying]
    with pytest.raises(ValueError):
        observers.remove(leaving)
