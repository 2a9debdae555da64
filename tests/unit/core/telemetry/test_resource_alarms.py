"""Resource alarms: their text, and the calls of hooks."""

from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY, Alarms


def test_the_reason_names_all_that_the_node_is_low_on():
    alarms = Alarms()
    assert alarms.reason == "" and alarms.on() == []
    alarms.set(DISK)
    assert alarms.reason == "low on disk"
    alarms.set(MEMORY)
    assert alarms.reason == "low on memory & disk" and alarms.on() == [MEMORY, DISK]
    alarms.clear(DISK)
    assert alarms.reason == "low on memory"
    alarms.clear(MEMORY)
    assert alarms.reason == ""


def test_hooks_are_called_after_changes_only():
    alarms = Alarms()
    calls: list[tuple[str, bool, str]] = []
    alarms.add_hook(lambda resource, on: calls.append((resource, on, alarms.reason)))
    alarms.clear(DISK)
    alarms.set(DISK)
    alarms.set(DISK)
    alarms.clear(DISK)
    assert calls == [(DISK, True, "low on disk"), (DISK, False, "")]
