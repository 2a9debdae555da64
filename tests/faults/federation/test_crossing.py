"""The faults of `make federation-faults`, each for a short while: nothing that was confirmed is lost."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.loop_thread import LoopThread
from tools.federation_faults.crossing import PREFETCH, Crossing
from tools.federation_faults.faults import repeat

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(120)]

FAULTS: dict[str, Callable[[Crossing], None]] = {
    "upstream_killed": repeat(3, Crossing.kill_upstream),
    "downstream_killed": repeat(3, Crossing.kill_downstream),
    "cut": lambda crossing: crossing.cut(1.0),
    "silence": lambda crossing: crossing.silence(1.0),
    "flapping": lambda crossing: crossing.flap(0.2, 5.0),
    "queue_deleted": Crossing.delete_queue,
    "bindings_changed": lambda crossing: crossing.change_bindings(5),
}


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory, loop: LoopThread) -> Iterator[Crossing]:
    crossing = Crossing(tmp_path_factory.mktemp("crossing"), loop)
    yield crossing
    crossing.close()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_nothing_that_was_confirmed_is_lost(crossing: Crossing, fault: Callable[[Crossing], None]) -> None:
    crossing.begin()
    fault(crossing)
    crossing.load()
    outcome = crossing.outcome()
    assert not outcome.lost, str(outcome)
    assert outcome.duplicates <= PREFETCH * outcome.breaks, str(outcome)
