"""`warren doctor` on the log of a simulated disk, of which it sees a copy, whole or without the end of a segment."""

from collections.abc import Collection
from contextlib import redirect_stdout
from io import StringIO
from random import Random

from tests.faults.simulation.disk import SimulatedDisk
from warren.broker.storage import checkpoint, doctor
from warren.broker.storage.segment import name_of


def check_sound(disk: SimulatedDisk, queues: Collection[int], highest: int) -> None:
    """Check that the doctor finds no damage in the log of these queues, whose highest number ever is `highest`."""
    sound, output = _examined(_copied(disk), queues, highest)
    assert sound, f"the doctor calls this damage:\n{output}"


def check_shortened(disk: SimulatedDisk, queues: Collection[int], highest: int) -> None:
    """Check that the doctor misses the end of the last segment that the checkpoint knows, when it is cut off."""
    copy = _copied(disk)
    saved = checkpoint.load(copy, [])
    known = saved.segments.values() if saved is not None else ()
    there = copy.segments()
    durable = {each.number: each.length for each in known if there.get(each.number, 0) >= each.length > 0}
    if durable:
        number = max(durable)
        size = durable[number] - copy.random.randint(1, durable[number])
        copy.put(name_of(number), copy.content(name_of(number))[:size])
        sound, output = _examined(copy, queues, highest)
        assert not sound, f"the doctor does not miss what segment {number} had after {size} bytes:\n{output}"


def _copied(disk: SimulatedDisk) -> SimulatedDisk:
    copy = disk.crash()
    copy.random = Random(1)
    return copy


def _examined(disk: SimulatedDisk, queues: Collection[int], highest: int) -> tuple[bool, str]:
    """Return whether the doctor calls the log sound, and what it prints."""
    names = {number: f"queue {number}" for number in queues}
    with redirect_stdout(StringIO()) as output:
        sound = doctor._log(disk, doctor.Owners(names, highest))
    return sound, output.getvalue()
