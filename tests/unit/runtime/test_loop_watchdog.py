"""The watchdog of the event loop."""

import asyncio
import time

from tests.support.polling import until_async
from warren.broker.runtime.loop_watchdog import INTERVAL_S, REPORT_S, WARN_S, Turns


class Watch:
    """The durations of turns; `lines` are the logged ones."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []
        self.turns = Turns(lambda event, level, fields: self.lines.append(fields))


def test_the_longest_turn_is_remembered_since_the_start_and_of_the_last_interval() -> None:
    turns = Watch().turns
    turns.probed(0.0, 0.03, 0.03)
    turns.probed(1.0, 0.001, 0.0)
    assert (turns.longest_s, turns.longest_lately_s) == (0.03, 0.03)
    turns.probed(1.0 + INTERVAL_S, 0.002, 0.0)
    assert turns.longest_lately_s == 0.03, "the interval before still counts"
    turns.probed(2.0 + 2 * INTERVAL_S, 0.004, 0.0)
    assert (turns.longest_s, turns.longest_lately_s) == (0.03, 0.004)
    assert sum(turns.lag.counts) == 4


def test_a_long_turn_is_logged_with_who_was_served_but_not_again_and_again() -> None:
    watch = Watch()
    watch.turns.last_served = "127.0.0.1:1 -> 127.0.0.1:5672"
    watch.turns.probed(100.0, 2 * WARN_S, 2 * WARN_S)
    watch.turns.probed(101.0, 2 * WARN_S, 2 * WARN_S)
    assert watch.lines == [{"ms": 200, "processor_ms": 200, "last_served": "127.0.0.1:1 -> 127.0.0.1:5672"}]
    watch.turns.probed(101.0 + REPORT_S, 2 * WARN_S, 2 * WARN_S)
    assert len(watch.lines) == 2


def test_a_machine_that_is_busy_with_others_is_no_long_turn_of_ours() -> None:
    watch = Watch()
    watch.turns.probed(100.0, 2 * WARN_S, 0.001)
    assert (watch.lines, watch.turns.longest_processor_s, watch.turns.longest_s) == ([], 0.001, 2 * WARN_S)


def test_a_turn_that_works_is_measured() -> None:
    turns = Watch().turns

    async def main() -> None:
        watching = asyncio.create_task(turns.run())
        await asyncio.sleep(0)
        end_s = time.thread_time() + 0.15
        while time.thread_time() < end_s:
            pass
        await until_async(lambda: turns.longest_s)
        watching.cancel()

    asyncio.run(main())
    assert turns.longest_processor_s >= 0.1
    assert turns.status()["longest_processor_ms"] == round(turns.longest_processor_s * 1000, 1)
