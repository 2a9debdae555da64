"""The fixtures of pytest: a broker for the session, virtual hosts for each test, and several brokers that federate.

pytest imports this module in every run, so it imports nothing but pytest; the rest is imported by the first test that
uses a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .broker import Broker
    from .foreign import ForeignBroker
    from .vhost import VHost

URL_OPTION, HTTP_URL_OPTION = "--amqp-url", "--amqp-http-url"
VARIABLES = {URL_OPTION: "WARREN_TESTING_AMQP_URL", HTTP_URL_OPTION: "WARREN_TESTING_HTTP_URL"}  # of `BrokerMixin`
# The brokers of the fixtures while they last, and the lengths of their logs when the test began
RUNNING = pytest.StashKey[list["Broker | ForeignBroker"]]()
LOG_STARTS = pytest.StashKey[list[int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("amqp", "the broker of the AMQP fixtures")
    group.addoption(URL_OPTION, default="", metavar="URL", help="use this broker, such as RabbitMQ, and start none")
    group.addoption(HTTP_URL_OPTION, default="", metavar="URL", help="its HTTP API; default: port 15672 of its host")


def pytest_configure(config: pytest.Config) -> None:
    """Let test cases of unittest use the broker of the options too."""
    environment = pytest.MonkeyPatch()
    config.add_cleanup(environment.undo)
    for option, variable in VARIABLES.items():
        if config.getoption(option):
            environment.setenv(variable, config.getoption(option))


@pytest.fixture(scope="session")
def amqp_broker_config() -> dict[str, object]:
    """Keys of rabbitmq.conf for the broker of the session; a project may define this fixture in its own way."""
    return {}


@pytest.fixture(scope="session")
def amqp_broker(
    request: pytest.FixtureRequest, amqp_broker_config: dict[str, object]
) -> Iterator[Broker | ForeignBroker]:
    """A broker in a process of its own: one for the session, and with pytest-xdist one for each worker.

    Its faults are undone after each test. If it is down then, it is started at the same address. With --amqp-url it is
    the broker there, and what that cannot do skips the test.
    """
    from .broker import open_broker

    option = request.config.getoption
    with open_broker(amqp_broker_config, option(URL_OPTION), option(HTTP_URL_OPTION)) as broker:
        running = request.config.stash[RUNNING] = [broker]
        yield broker
        running.clear()


@pytest.fixture
def amqp_vhost(request: pytest.FixtureRequest, amqp_broker: Broker) -> Iterator[VHost]:
    """A virtual host for this test, which is deleted after it. Its name is that of the test, and a number."""
    from .vhost import vhost_name

    with amqp_broker.vhost(vhost_name(request.node.name)) as vhost:
        yield vhost


@pytest.fixture
def amqp_url(amqp_vhost: VHost) -> str:
    """The address of the virtual host of this test: amqp://guest:guest@127.0.0.1:PORT/VHOST."""
    return amqp_vhost.url


@pytest.fixture(scope="session")
def amqp_more_brokers(
    request: pytest.FixtureRequest, amqp_broker: Broker | ForeignBroker, amqp_broker_config: dict[str, object]
) -> Iterator[Callable[[int], list[Broker | ForeignBroker]]]:
    """Return this many brokers, of which the first is `amqp_broker`; with --amqp-url all are the one there."""
    from .broker import Broker

    brokers = [amqp_broker]
    with ExitStack() as started:

        def at_least(number: int) -> list[Broker | ForeignBroker]:
            if not isinstance(amqp_broker, Broker):
                return [amqp_broker] * number
            while len(brokers) < number:
                broker = started.enter_context(Broker(amqp_broker_config))
                brokers.append(broker)
                request.config.stash[RUNNING].append(broker)
            return brokers[:number]

        yield at_least


@pytest.fixture
def amqp_sites(
    request: pytest.FixtureRequest, amqp_more_brokers: Callable[[int], list[Broker]]
) -> Iterator[Callable[[int], list[VHost]]]:
    """A function that returns this many virtual hosts for the test, each on a broker of its own."""
    from .vhost import vhost_name

    with ExitStack() as made:

        def sites(number: int) -> list[VHost]:
            return [
                made.enter_context(broker.vhost(vhost_name(request.node.name))) for broker in amqp_more_brokers(number)
            ]

        yield sites


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    brokers = item.config.stash.get(RUNNING, [])
    item.stash[LOG_STARTS] = [broker.log_bytes for broker in started(brokers)]
    for broker in brokers:
        broker.ensure_running()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Undo faults before the fixtures of the test end, whose clients would suffer from them, and again after that."""
    undo_faults(item)
    yield
    undo_faults(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, None, None]:
    """Show the logs of the brokers with a failure of a test that uses them."""
    brokers = item.config.stash.get(RUNNING, [])
    if not brokers or not uses_broker(item):
        yield
        return
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        config = getattr(item, "funcargs", {}).get("amqp_broker_config")
        if config and brokers[0] not in started(brokers):
            text = f"--amqp-url: the broker there does not have the keys of amqp_broker_config: {', '.join(config)}"
            report.sections.append(("Broker", text))
        starts = item.stash.get(LOG_STARTS, [])
        for number, broker in enumerate(started(brokers)):
            title = f"Broker log {number + 1}" if number else "Broker log"
            report.sections.append((title, broker.log(starts[number] if number < len(starts) else 0)))


def undo_faults(item: pytest.Item) -> None:
    """Undo the faults of the brokers. One that cannot undo them ends: the next test gets a new one."""
    for broker in item.config.stash.get(RUNNING, []):
        if broker.used or uses_broker(item):
            broker.undo_faults()


def started(brokers: list[Broker | ForeignBroker]) -> list[Broker]:
    """Return those brokers that the tests have started."""
    if not brokers:
        return []
    from .broker import Broker

    return [broker for broker in brokers if isinstance(broker, Broker)]


def uses_broker(item: pytest.Item) -> bool:
    return "amqp_broker" in getattr(item, "fixturenames", ())
