"""The garbage collector as the broker sets it once it has started: what was there before is left alone."""

import gc
from collections.abc import Iterator

import pytest

from warren.broker.runtime.garbage_collection import THRESHOLDS


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    yield
    gc.set_threshold(*thresholds)
