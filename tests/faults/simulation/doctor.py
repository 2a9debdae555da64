"""`warren doctor` on the log of a simulated disk, of which it sees a copy."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import redirect_stdout
from io import StringIO
from random import Random

from tests.faults.simulation.disk import SimulatedDisk
from warren.broker.storage import doctor


def check_sound(disk: SimulatedDisk, queues: Collection[int], highest: int) -> None:
    """Check that the doctor finds no damage in the log of these queues, whose highest number ever is `highest`."""
    copy = disk.crash()
    copy.random = Random(1)
    names = {number: f"queue {number}" for number in queues}
    with redirect_stdout(StringIO()) as output:
        sound = doctor._log(copy, doctor.Owners(names, highest))
    assert sound, f"the doctor calls this damage:\n{output.getvalue()}"
