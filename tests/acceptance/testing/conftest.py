"""A broker for the tests of this folder, whose faults each of them undoes, and the connections of its clients."""

from collections.abc import Iterator

import pytest

from warren.testing import Broker, VHost

from .clients import close_all


@pytest.fixture(scope="package")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.reset()


@pytest.fixture
def vhost(broker: Broker) -> Iterator[VHost]:
    with broker.vhost() as vhost:
        yield vhost


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    """Close the connections of the test at its end."""
    yield
    close_all()
