"""The fixtures of pytest: a broker for the session, and a virtual host for each test.

pytest imports this module in every run, so it imports nothing but pytest; the rest is imported by the first test that
uses a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .broker import Broker, VHost

NAME_CHARACTERS = 60  # of a test's name in the name of its virtual host
NUMBERS = count(1)  # of virtual hosts
# The running broker, and the length of its log when the test began
RUNNING = pytest.StashKey["Broker"]()
LOG_START = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def amqp_broker_config() -> dict[str, object]:
    """Keys of rabbitmq.conf for the broker of the session; a project may define this fixture in its own way."""
    return {}


@pytest.fixture(scope="session")
def amqp_broker(request: pytest.FixtureRequest, amqp_broker_config: dict[str, object]) -> Iterator[Broker]:
    """A broker in a process of its own: one for the session, and with pytest-xdist one for each worker.

    Its faults are undone after each test. If a test has ended it, the next test gets a new one at the same address.
    """
    from .broker import Broker

    with Broker(amqp_broker_config) as broker:
        request.config.stash[RUNNING] = broker
        yield broker
        del request.config.stash[RUNNING]


@pytest.fixture
def amqp_vhost(request: pytest.FixtureRequest, amqp_broker: Broker) -> Iterator[VHost]:
    """A virtual host for this test, which is deleted after it. Its name is that of the test, and a number.

    The names differ, so that clients that an earlier test has left behind do not connect to it again.
    """
    test = re.sub(r"[^\w.-]+", "-", request.node.name)[:NAME_CHARACTERS].strip("-")
    with amqp_broker.vhost(f"{test}-{next(NUMBERS)}") as vhost:
        yield vhost


@pytest.fixture
def amqp_url(amqp_vhost: VHost) -> str:
    """The address of the virtual host of this test: amqp://guest:guest@127.0.0.1:PORT/VHOST."""
    return amqp_vhost.url


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    broker = item.config.stash.get(RUNNING, None)
    item.stash[LOG_START] = broker.log_bytes if broker is not None else 0
    if broker is not None and not broker.running:
        broker.start()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Undo faults before the fixtures of the test end, whose clients would suffer from them, and again after that."""
    undo_faults(item.config)
    yield
    undo_faults(item.config)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, None, None]:
    """Show the log of the broker with a failure of a test that uses it."""
    broker = item.config.stash.get(RUNNING, None)
    if broker is None or "amqp_broker" not in getattr(item, "fixturenames", ()):
        yield
        return
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        report.sections.append(("Broker log", broker.log(item.stash.get(LOG_START, 0))))


def undo_faults(config: pytest.Config) -> None:
    """Undo the faults of the broker, if it is running. End one that cannot undo them: the next test gets a new one."""
    broker = config.stash.get(RUNNING, None)
    if broker is None:
        return
    from .broker import BrokerError

    try:
        broker.reset()
    except BrokerError:
        broker.kill()
