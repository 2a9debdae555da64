"""A target of fuzzing: its function, its first inputs and its limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

TURN_MS = 20.0  # of processor time in a turn of the event loop

Turn = Callable[[], None]


@dataclass(frozen=True)
class Target:
    """A function that reads bytes from outside.

    seeds      the inputs from which a search begins
    max_bytes  of an input
    turn_ms    the longest turn, in processor time; more for what runs before the loop or in another process
    """

    name: str
    run: Callable[[bytes, Turn], None]
    seeds: Sequence[bytes] = field(repr=False)
    max_bytes: int = 4096
    turn_ms: float = TURN_MS


def pieces(data: bytes) -> list[bytes]:
    """Cut an input into reads: its first bytes are their lengths, which repeat."""
    count = data[0] % 4 if data else 0
    sizes = [size or 256 for size in data[1 : count + 1]]
    data, at, found = data[count + 1 :], 0, []
    while at < len(data):
        size = sizes[len(found) % len(sizes)] if sizes else len(data)
        found.append(data[at : at + size])
        at += size
    return found
