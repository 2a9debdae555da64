"""The order of functions that wait for a turn of HTTP, and deadlines of clients that wait for the broker."""

from collections import deque
from collections.abc import Callable

from warren.plugins.http import connection
from warren.plugins.http.pace import TURN_S, Pace


class Loop:
    """A loop whose turns the test makes."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()

    def call_soon(self, fn: Callable[[], None]) -> None:
        self.soon.append(fn)


def test_new_work_waits_for_little_of_the_continued_work() -> None:
    loop = Loop()
    pace = Pace(loop)  # type: ignore[arg-type]
    called: list[str] = []

    def wait(name: str, again: bool) -> None:
        def call() -> None:
            called.append(name)
            pace.charge(TURN_S / 4)
            if again:
                wait(name, again)

        pace.call_in_turn(call, again)

    for number in range(300):
        wait(f"long {number}", again=True)
    loop.soon.popleft()()
    wait("short", again=False)
    loop.soon.popleft()()
    assert called.index("short") < 10 and called[:3] == ["long 0", "long 1", "long 2"]


class Transport:
    closed = False

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_a_client_that_waits_for_its_turn_is_not_late() -> None:
    expired: deque[Callable[[], None]] = deque()

    class Timers:
        def call_later(self, after_s: float, fn: Callable[[], None]) -> None:
            expired.append(fn)

    protocol = connection.Protocol.__new__(connection.Protocol)
    transport = protocol.transport = Transport()  # type: ignore[assignment]
    protocol.loop = Timers()  # type: ignore[assignment]
    protocol._waits = True
    protocol._start_deadline()
    expired.popleft()()
    assert not transport.closed and len(expired) == 1
    protocol._waits = False
    expired.popleft()()
    assert transport.closed
