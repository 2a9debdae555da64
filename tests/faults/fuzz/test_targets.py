"""The inputs of coverage-guided fuzzing that are stored: those that reach most code, and those that once failed."""

import pytest

from .targets import TARGETS
from .targets.corpus import stored


@pytest.mark.parametrize("name", TARGETS)
def test_the_stored_inputs_are_accepted_or_refused(name: str) -> None:
    target = TARGETS[name]
    for data in [*target.seeds, *stored(name), b""]:
        target.run(data, lambda: None)
