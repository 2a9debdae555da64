from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.warrenctl import Controlled


@pytest.fixture
def controlled(tmp_path: Path) -> Iterator[Controlled]:
    """A node inside this process, with its unix socket."""
    made = Controlled(tmp_path)
    made.open()
    yield made
    made.close()
