"""The progress of a migration: a line for each queue on a terminal, or plain lines in a log."""

import shutil
import time
from dataclasses import dataclass
from typing import TextIO

from warren.broker.standard_streams import printable

from .brokers import QueueName

EVERY_S = 10.0  # the time between two lines with the totals, if the output is no terminal
OTHER_LINES = 3  # lines of the screen beside those of queues
UP, CLEAR = "\x1b[{}F", "\x1b[J"


@dataclass
class Progress:
    """The progress of one queue."""

    name: QueueName
    moved: int = 0  # messages that are safe at the target, or that left the source if the target does not count them
    ready: int = 0
    unacked: int = 0
    problem: str = ""
    has_link: bool = False

    @property
    def left(self) -> int:
        return self.ready + self.unacked

    def line(self, width: int) -> str:
        numbers = f"{self.moved:>12,} {self.ready:>12,} {self.unacked:>9,}"
        return f"{self.title:<{width}} {numbers}  {self.problem}".rstrip()

    @property
    def title(self) -> str:
        return printable(self.name.name if self.name.vhost == "/" else f"{self.name.vhost}: {self.name.name}")


class Display:
    """The output of the progress. On a terminal it is written again in place, with the queues that have most left."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._height = 0  # lines that the next output replaces
        self._next_s = 0.0
        self._announced: dict[QueueName, str] = {}

    def note(self, text: str) -> None:
        """Write a line that stays."""
        self._erase()
        self._write([text])

    def show(self, rows: list[Progress], summary: str) -> None:
        if self._terminal:
            self._redraw(rows, summary)
            return
        lines = [row.title + (f": {row.problem}" if row.problem else ": moves again") for row in self._changed(rows)]
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            lines.append(summary)
        self._write(lines)

    def _changed(self, rows: list[Progress]) -> list[Progress]:
        """Return the queues whose problem has changed since it was last written."""
        changed = [row for row in rows if row.problem != self._announced.get(row.name, "")]
        self._announced |= {row.name: row.problem for row in changed}
        return changed

    def _redraw(self, rows: list[Progress], summary: str) -> None:
        columns, height = shutil.get_terminal_size()
        shown = sorted(rows, key=lambda row: (not row.problem, -row.left))[: max(height - OTHER_LINES, 1)]
        shown.sort(key=lambda row: row.name)
        lines = [*table(shown), summary]
        self._erase()
        self._write([line[: columns - 1] for line in lines])
        self._height = len(lines)

    def _erase(self) -> None:
        if self._height:
            self._out.write(UP.format(self._height) + CLEAR)
            self._height = 0

    def _write(self, lines: list[str]) -> None:
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()


def table(rows: list[Progress]) -> list[str]:
    """Return a heading and a line for each queue."""
    width = max(len("queue"), max((len(row.title) for row in rows), default=0))
    return [f"{'queue':<{width}} {'moved':>12} {'ready':>12} {'unacked':>9}", *(row.line(width) for row in rows)]


def totals(rows: list[Progress], clients: int, seconds: float) -> str:
    """Return one line with the sums over all queues."""
    moved, ready, unacked = (sum(getattr(row, name) for row in rows) for name in ("moved", "ready", "unacked"))
    empty = sum(not row.left for row in rows)
    return (
        f"{moved:,} moved, {ready:,} ready, {unacked:,} unacked; {empty} of {len(rows)} queues empty; "
        f"{clients} connections of clients at the source; {seconds:.0f} s"
    )
