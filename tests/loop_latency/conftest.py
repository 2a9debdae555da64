"""The garbage collector as the broker sets it once it has started, which ignores older objects; and meters of turns."""

import gc
from collections.abc import Iterator

import pytest

from tests.support.amqp_client import Channel
from tests.support.http import Api
from tests.support.in_process import FakeSocket
from warren.broker.core.vhost.vhost import VHost
from warren.broker.runtime.garbage_collection import THRESHOLDS

from .broker import MeasuredPeer, StepMeter
from .meter import Meter, UVLoopMeter


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture
def meter() -> Iterator[Meter]:
    """A meter of the turns of an event loop."""
    made = Meter()
    yield made
    made.close()


@pytest.fixture
def uvloop_meter() -> Iterator[Meter]:
    """A meter of the turns of the broker's own loop."""
    made = UVLoopMeter()
    yield made
    made.close()


@pytest.fixture
def step_meter(monkeypatch: pytest.MonkeyPatch) -> StepMeter:
    """A meter of the steps in which a broker without sockets works."""
    made = StepMeter()
    monkeypatch.setattr(FakeSocket, "feed", made.measured(FakeSocket.feed))
    return made


@pytest.fixture
def peer(step_meter: StepMeter) -> Iterator[MeasuredPeer]:
    made = MeasuredPeer(step_meter)
    yield made
    made.close()


@pytest.fixture
def vhost(peer: MeasuredPeer) -> VHost:
    return peer.node.vhosts["/"]


@pytest.fixture
def channel(peer: MeasuredPeer) -> Channel:
    """A channel of a new client."""
    return peer.connect().channel()


@pytest.fixture
def api() -> Iterator[Api]:
    """The HTTP API of a new broker."""
    made = Api()
    yield made
    made.close()
