"""The end of links when the broker stops: in batches, with a pause in between, within a time limit."""

import asyncio

from warren.broker.config.config import Links
from warren.federation.link import Link
from warren.federation.service import end_in_batches

TIMEOUT_MS = 60_000


class AdvancedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be set forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class EndedLink(Link):
    """A link without a task that writes down when it was ended; one that `hangs` takes TIMEOUT_MS to end."""

    def __init__(self, log: list[str], name: str, hangs: bool = False) -> None:
        self.log = log
        self.label = name
        self.hangs = hangs

    def end(self, removing: bool) -> None:
        self.log.append(f"end {self.label}{' and remove' if removing else ''}")

    async def ended(self) -> None:
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        if self.hangs and isinstance(loop, AdvancedLoop):
            loop.ahead_s += TIMEOUT_MS / 1000
        self.log.append(f"ended {self.label}")


def ended(settings: Links, names: str, hangs: bool = False, removing: bool = False) -> list[str]:
    log: list[str] = []
    links: list[Link] = [EndedLink(log, name, hangs) for name in names]
    with asyncio.Runner(loop_factory=AdvancedLoop) as runner:
        runner.run(end_in_batches(links, settings, removing))
    return log


def test_a_batch_ends_before_the_next_one_begins_to() -> None:
    log = ended(Links(link_batch_size=2, throttle_delay=1), "abc")
    assert log == ["end a", "end b", "ended a", "ended b", "end c", "ended c"]


def test_after_the_timeout_all_that_are_left_end_at_once() -> None:
    log = ended(
        Links(link_batch_size=1, throttle_delay=1, shutdown_timeout=TIMEOUT_MS), "abc", hangs=True, removing=True
    )
    assert log[:4] == ["end a and remove", "ended a", "end b and remove", "end c and remove"]
    assert sorted(log[4:]) == ["ended b", "ended c"]


def test_there_may_be_none() -> None:
    assert ended(Links(), "") == []
