"""The log exchange: lines as messages."""

from collections.abc import Callable

import pytest
from pytest import MonkeyPatch

from tests.support.clock import FakeClock, fake_clock
from warren.broker.amqp.field_table import Table, value_of
from warren.broker.app.build import build_node
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.config.config import Log
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.telemetry.log_exchange import LOG, WAITING_LIMIT, LogExchange
from warren.broker.core.vhost import emissions


class Loop:
    """A loop that runs its callbacks when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, fn: Callable[[], None]) -> None:
        self.calls.append(fn)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def build(on: bool = True) -> Node:
    config = Config(memory=True, log=Log(exchange=on))
    return build_node(config, FakeClock(), Store(config))


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_there_is_one_in_the_default_virtual_host_where_it_is_wanted() -> None:
    exchange = build().vhosts["/"].exchanges[LOG]
    assert (exchange.type_name, exchange.durable, exchange.internal) == ("topic", True, True)
    assert LOG not in build(on=False).vhosts["/"].exchanges
    node = build()
    node.add_vhost("other")
    assert LOG not in node.vhosts["other"].exchanges


def test_a_line_is_a_message_whose_key_is_its_level(loop: Loop) -> None:
    node, committed = build(), []
    queue = declare(node, "error")
    exchange = LogExchange(node.system_exchange(LOG), loop.call_soon, lambda: committed.append(1))
    exchange.put("error", "it failed \udcff")
    exchange.put("info", "it did not")
    assert queue.get(True) is None
    loop.turn()
    got = queue.get(True)
    assert got is not None and (queue.ready, committed) == (0, [1])
    message = got[1]
    assert (message.address.routing_key, message.body) == ("error", b"it failed \\udcff")
    assert (message.properties.content_type, message.properties.headers) == ("text/plain", headers(node.name))


def test_lines_that_nobody_wants_are_dropped_and_so_is_a_flood(loop: Loop) -> None:
    node = build()
    exchange = LogExchange(node.system_exchange(LOG), loop.call_soon, lambda: None)
    exchange.put("error", "one")
    loop.turn()
    queue = declare(node, "#")
    for _ in range(WAITING_LIMIT + 10):
        exchange.put("info", "x")
    assert len(loop.calls) == 1
    loop.turn()
    assert queue.ready == WAITING_LIMIT


def test_lines_are_dropped_while_too_many_bytes_wait_for_very_many_queues(loop: Loop, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(emissions, "LIMIT_BYTES", 1 << 16)
    node = build()
    reports: list[str] = []
    node.scheduler.report = lambda event, level, fields: reports.append(event)
    queues = [declare(node, "#", f"q{number}") for number in range(1_000)]
    exchange = LogExchange(node.system_exchange(LOG), loop.call_soon, lambda: None)
    for _ in range(2):
        for _ in range(100):
            exchange.put("info", "x" * 1_000)
        loop.turn()
    fake_clock(node.clock).advance(1_000)
    node.pump()
    (ready,) = {queue.ready for queue in queues}
    assert (1 << 16) // 2_200 < ready < 40 and reports == ["system_messages_dropped"]
    exchange.put("info", "goes on")
    loop.turn()
    fake_clock(node.clock).advance(1_000)
    assert {queue.ready for queue in queues} == {ready + 1}


def declare(node: Node, key: str, name: str = "q") -> Queue:
    vhost = node.vhosts["/"]
    queue = vhost.declare_queue(name)
    assert isinstance(queue, Queue)
    vhost.bind(LOG, queue, key, Table.EMPTY)
    return queue


def headers(node: str) -> Table:
    return Table.of({"node": value_of(node)})
