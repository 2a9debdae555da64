from collections.abc import Iterator

import pytest

from tests.support.metrics import Scraper


@pytest.fixture
def scraper() -> Iterator[Scraper]:
    """The metrics of a fresh broker."""
    made = Scraper()
    yield made
    made.close()
