"""The acceptance checks: each test carries the numbers of the checks it covers, and the run ends with the count.

They run in process, with sockets, loop and clock replaced (tests/support/in_process.py). Two switches:

WARREN_PEER=HOST:PORT  over TCP, against whatever broker listens there. What needs the clock or the inside is skipped;
                       on RabbitMQ itself a test marked `differs` is expected to fail.
WARREN_READ=OCTETS     the broker reads that little at once: with 1 nothing is ever recognised whole.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.support.amqp import Client
from tests.support.broker import Peer, SocketPeer
from tests.support.channel import Channel
from tests.support.in_process import InProcessPeer

PEER = os.environ.get("WARREN_PEER", "")
LAST_CHECK = 166
LATER = {
    26: "needs deletion of vhosts and users at run time",
    27: "needs the listing of connections",
    98: "queue expiry",
    144: "single active consumer",
    145: "single active consumer",
    152: "length limits",
    153: "needs refusals, which come with length limits",
    160: "message TTL",
}
PARTLY = {148: "its message TTL part comes with message TTL"}
_covered: dict[int, set[str]] = {}  # the number of a check -> outcomes of its tests


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "check(*numbers): the numbers of the acceptance checks a test covers")
    config.addinivalue_line("markers", "in_process(reason): needs the fake clock, or the broker itself")
    config.addinivalue_line("markers", "differs(reason): RabbitMQ answers otherwise, and why ours is meant")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs = item.get_closest_marker("in_process")
        if PEER and needs is not None:
            item.add_marker(pytest.mark.skip(reason=f"in process only: {needs.args[0]}"))
        differs = item.get_closest_marker("differs")
        if PEER and differs is not None and _is_rabbitmq():
            item.add_marker(pytest.mark.xfail(reason=differs.args[0], strict=False))


@cache
def _is_rabbitmq() -> bool:
    """Whether the peer is RabbitMQ itself: it runs on Erlang."""
    peer = SocketPeer(PEER)
    client = peer.dial()
    client.start()
    peer.close()
    return "Erlang" in client.server_properties["platform"]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    for marker in item.iter_markers("check"):
        for number in marker.args:
            if report.when == "call" or report.outcome != "passed":
                _covered.setdefault(number, set()).add("xfailed" if hasattr(report, "wasxfail") else report.outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _covered:
        return
    passed = sorted(number for number, outcomes in _covered.items() if outcomes == {"passed"})
    failed = sorted(number for number, outcomes in _covered.items() if "failed" in outcomes)
    missing = [number for number in range(1, LAST_CHECK + 1) if number not in _covered and number not in LATER]
    write = terminalreporter.write_line
    terminalreporter.section("acceptance checks")
    write(f"{len(passed)} passed of {len(_covered)} covered, of {LAST_CHECK} in all; failed: {failed or 'none'}")
    write(f"skipped or different: {sorted(set(_covered) - set(passed) - set(failed)) or 'none'}")
    write(f"without a test: {missing or 'none'}")
    for number, reason in sorted(LATER.items()):
        if number not in _covered:
            write(f"later: {number} ({reason})")
    for number, reason in sorted(PARTLY.items()):
        write(f"partly: {number} ({reason})")


@pytest.fixture
def broker() -> Iterator[Peer]:
    peer: Peer = SocketPeer(PEER) if PEER else InProcessPeer()
    yield peer
    peer.close()


@pytest.fixture
def client(broker: Peer) -> Client:
    return broker.connect()


@pytest.fixture
def ch(client: Client) -> Channel:
    return client.channel()


@pytest.fixture
def name(broker: Peer) -> Callable[[str], str]:
    """Names for queues and exchanges of this test's own."""
    return broker.name


@pytest.fixture
def queue(ch: Channel, name: Callable[[str], str]) -> str:
    """A queue, empty and transient."""
    declared = name("queue")
    ch.declare(declared)
    return declared
