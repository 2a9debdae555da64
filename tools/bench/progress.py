"""The state that the processes of one load share: the phase, and each worker's readiness and count."""

import time
from collections.abc import MutableSequence

STARTING, RUNNING, MEASURING, STOPPED = range(4)


class Progress:
    """The state as 64-bit words in shared memory. Each word has one writer, so there is no lock."""

    __slots__ = ("words",)

    def __init__(self, words: MutableSequence[int]) -> None:
        self.words = words  # [phase, ready of worker 0, its count, ready of worker 1, ...]

    @staticmethod
    def words_for(workers: int) -> int:
        return 1 + 2 * workers

    @property
    def phase(self) -> int:
        return self.words[0]

    @phase.setter
    def phase(self, phase: int) -> None:
        self.words[0] = phase

    def ready(self, worker: int) -> None:
        """Report that a worker is ready, and wait until all the others are."""
        self.words[1 + 2 * worker] = 1
        while self.words[0] == STARTING:
            time.sleep(0.001)

    @property
    def all_ready(self) -> bool:
        return all(self.words[1::2])

    def count(self, worker: int, messages: int) -> None:
        self.words[2 + 2 * worker] = messages

    def counted(self, workers: range) -> int:
        return sum(self.words[2 + 2 * worker] for worker in workers)
