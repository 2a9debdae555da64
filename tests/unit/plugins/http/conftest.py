from collections.abc import Iterator

import pytest

from tests.support.http import Api


@pytest.fixture
def api() -> Iterator[Api]:
    """The HTTP API of a new broker."""
    made = Api()
    yield made
    made.close()
