"""Waiting for a condition that no event announces, with a time limit: `until` for threads, `until_async` for a loop."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

WITHIN_S = 60.0  # on a machine that others use as well
POLL_S = 0.01
STEADY_S = 0.25  # without a change, after which no further change is expected

T = TypeVar("T")
Condition = Callable[[], T | Literal[False] | None]
Expected = str | Callable[[], object]
"""The message of a failed wait: the expected condition, or a function that returns the present state."""


def until(condition: Condition[T], expected: Expected = "it", within_s: float = WITHIN_S, every_s: float = POLL_S) -> T:
    """Return the first true result of the condition. Raises AssertionError when there is none in that time."""
    give_up = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < give_up, _failure(expected, within_s)
        time.sleep(every_s)
    return result


def until_result(
    look: Callable[[], T], wanted: Callable[[T], object], within_s: float = WITHIN_S, every_s: float = POLL_S
) -> T:
    """Return the first result of `look` that is wanted. Raises AssertionError when there is none in that time."""
    give_up = time.monotonic() + within_s
    while not wanted(result := look()):
        assert time.monotonic() < give_up, _failure(str(result), within_s)
        time.sleep(every_s)
    return result


async def until_async(
    condition: Condition[T], expected: Expected = "it", within_s: float = WITHIN_S, every_s: float = 0.001
) -> T:
    """The same for a condition of the running loop, which goes on meanwhile."""
    give_up = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < give_up, _failure(expected, within_s)
        await asyncio.sleep(every_s)
    return result


def until_steady(look: Callable[[], object], for_s: float = STEADY_S) -> None:
    """Return when the result of `look` has not changed for that time: what was to come has come by then."""
    seen, since = look(), time.monotonic()
    while time.monotonic() < since + for_s:
        time.sleep(POLL_S)
        if (now := look()) != seen:
            seen, since = now, time.monotonic()


def _failure(expected: Expected, within_s: float) -> str:
    return f"not within {within_s:.0f} s: {expected() if callable(expected) else expected}"


def links_running(
    links: Callable[[], list[dict[str, Any]]], count: int, describe: Callable[[], str]
) -> list[dict[str, Any]]:
    """Wait until there are `count` federation links and all of them run; return them."""

    def running() -> list[dict[str, Any]]:
        rows = links()
        return rows if len(rows) == count and all(row["status"] == "running" for row in rows) else []

    return until(running, describe)
