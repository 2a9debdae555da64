"""`make chaos` does not call a demand held that is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.chaos.federation import FAULTS, verdict
from tools.chaos.scenario import Lab, Scenario, Timed
from tools.chaos.syncs import Syncs
from tools.failover.outcome import Outcome

LOG = "1.log"


def line(thread: int, call: str, result: str, when_s: float = 5.0) -> str:
    return f"{thread}  {when_s:.6f} {call} = {result}\n"


def write(thread: int, offset: int, path: Path, result: str = "10") -> str:
    return line(thread, f'pwrite64(3<{path}>, ""..., 10, {offset})', result)


def sync(thread: int, path: Path, result: str = "0") -> str:
    return line(thread, f"fdatasync(3<{path}>)", result)


FAILED = "-1 EIO (Input/output error) (INJECTED)"


def test_what_was_synced_is_kept_and_the_rest_is_cut(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(bytes(40))
    log = write(1, 0, path) + sync(1, path) + write(2, 10, path) + write(1, 20, path)
    syncs = Syncs(log + sync(2, path, FAILED) + sync(1, path) + write(1, 30, path))
    assert syncs.unsynced == {path: 10} and syncs.failed_s == 5.0
    assert syncs.forget() == 30 and path.stat().st_size == 10


def test_a_sync_that_began_before_its_thread_wrote_or_after_a_failure_covers_nothing() -> None:
    path = Path("/data") / LOG
    begun = f"1 5.0 fdatasync(3<{path}> <unfinished ...>\n" + write(2, 0, path) + "1 5.1 <... fdatasync resumed>) = 0\n"
    assert Syncs(begun).unsynced == {path: 0}
    assert Syncs(sync(2, path, FAILED) + write(1, 50, path) + sync(1, path)).unsynced == {path: 50}
    assert Syncs(write(1, 50, path) + begun).unsynced == {path: 0}


def test_a_write_that_failed_has_left_nothing() -> None:
    path = Path("/data") / LOG
    log = write(1, 0, path, "-1 ENOSPC (No space left on device) (INJECTED)") + write(1, 0, path) + sync(1, path)
    assert Syncs(log).unsynced == {path: 0}, "a sync after a failure"
    assert not Syncs(write(1, 0, path, FAILED)).unsynced


def tried(*outcomes: Outcome) -> tuple[bool | None, int]:
    """The verdict of a row whose tries have these outcomes, and how often it was measured."""
    left = iter(outcomes)
    row = Scenario(1, "a row", "a demand", lambda lab: next(left))
    return row.run(1.0, 7).holds, len(outcomes) - len(list(left))


LATE, IN_TIME, LOST = Timed(True, "2 s", False), Timed(True, "1 s", True), Timed(False, "1 lost", True)


def test_a_time_that_is_too_long_is_measured_again() -> None:
    assert tried(LATE, LATE, IN_TIME) == (True, 3)
    assert tried(LATE, LATE, LATE, IN_TIME) == (False, 3)


def test_a_loss_is_not_measured_again() -> None:
    assert tried(LOST, IN_TIME) == (False, 1)
    assert tried(LATE, LOST, IN_TIME) == (False, 2)
    assert tried(Timed(False, "1 lost", False), IN_TIME) == (False, 1)


def test_a_failed_assertion_is_not_measured_again() -> None:
    tries = []

    def measure(lab: Lab) -> Outcome:
        tries.append(lab)
        assert len(tries) > 1, "1 lost"
        return IN_TIME

    assert Scenario(1, "a row", "a demand", measure).run(1.0, 7).holds is False and len(tries) == 1


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_link_may_lose_and_repeat_what_was_under_way_and_no_more(ack_mode: str, fault: str) -> None:
    def holds(**found: object) -> bool:
        fine = {"lost": [], "duplicates": 0, "unflagged": 0, "unordered": 0, "breaks": 3, "confirmed": 1840}
        return verdict(ack_mode, fault, SimpleNamespace(**{**fine, "under_way": 240, **found})).holds is True

    may_lose = ack_mode == "no-ack" or (ack_mode, fault) == ("on-publish", "downstream killed")
    assert holds()
    assert holds(lost=range(240)) == may_lose and not holds(lost=range(241))
    assert holds(duplicates=240) == (ack_mode != "no-ack") and not holds(duplicates=241)
    assert not holds(duplicates=1, unflagged=1) and not holds(unordered=1)
