"""Two threads run through every order of their calls to the disk, one thread at a time, each order once.

A thread stops before each call and after each `open`; a schedule says which of the two continues. `orders` runs a
scenario again and again, each time with the next schedule in depth-first order, until all were tried.
"""

import threading
from collections.abc import Callable, Iterator

from tests.faults.simulation.disk import SimulatedDisk
from warren.broker.storage.folder_disk import File, FileDisk

WAIT_S = 60.0  # until a running thread must have stopped again; only a deadlock takes that long


class Stepper:
    """Runs functions in threads, one at a time. `choices` are indexes into the threads that can run."""

    def __init__(self, choices: list[int]) -> None:
        self.choices = choices
        self.options: list[int] = []  # the number of threads that could run, at each step
        self._turns: dict[threading.Thread, threading.Semaphore] = {}
        self._stopped = threading.Semaphore(0)
        self._failures: list[BaseException] = []

    def point(self) -> None:
        """Stop the calling thread here until it is chosen."""
        turn = self._turns.get(threading.current_thread())
        if turn is not None:
            self._stopped.release()
            assert turn.acquire(timeout=WAIT_S), "the schedule has come to a stop"

    def run(self, *functions: Callable[[], object]) -> None:
        """Run all functions to their ends. Raises the exception of the first that failed."""
        for function in functions:
            thread = threading.Thread(target=self._thread, args=(function,), daemon=True)
            self._turns[thread] = threading.Semaphore(0)
        for thread in self._turns:
            thread.start()
            assert self._stopped.acquire(timeout=WAIT_S)
        while alive := [thread for thread in self._turns if thread.is_alive()]:
            step = len(self.options)
            choice = self.choices[step] if step < len(self.choices) else 0
            self.options.append(len(alive))
            self._turns[alive[choice]].release()
            assert self._stopped.acquire(timeout=WAIT_S), "a thread waits for the other"
            if self._ended is alive[choice]:
                alive[choice].join()
        if self._failures:
            raise self._failures[0]

    _ended: threading.Thread | None = None

    def _thread(self, function: Callable[[], object]) -> None:
        self.point()
        try:
            function()
        except BaseException as failure:
            self._failures.append(failure)
        self._ended = threading.current_thread()
        self._stopped.release()


class SteppedDisk(FileDisk):
    """A simulated disk whose calls are the points at which another thread may continue."""

    def __init__(self, disk: SimulatedDisk, stepper: Stepper) -> None:
        super().__init__()
        self.disk = disk
        self._stepper = stepper
        disk.before = lambda what, name: stepper.point()

    def open(self, name: str, create: bool) -> File:
        file = self.disk.open(name, create)
        self._stepper.point()
        return file

    def names(self) -> list[str]:
        return self.disk.names()

    def remove(self, name: str) -> None:
        self.disk.remove(name)

    def rename(self, old: str, new: str) -> None:
        self.disk.rename(old, new)

    def sync_folder(self) -> None:
        self.disk.sync_folder()

    def free_bytes(self) -> int:
        return self.disk.free_bytes()

    def salt(self) -> int:
        return self.disk.salt()


def orders() -> Iterator[Stepper]:
    """Yield a stepper for each order. The next order follows from the steppers before."""
    choices: list[int] = []
    while True:
        stepper = Stepper(choices)
        yield stepper
        taken = choices + [0] * (len(stepper.options) - len(choices))
        while taken and taken[-1] + 1 >= stepper.options[len(taken) - 1]:
            taken.pop()
        if not taken:
            return
        choices = [*taken[:-1], taken[-1] + 1]
