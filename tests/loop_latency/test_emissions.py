"""Exchange types that emit, replay or delay messages hold no step of the loop, however many messages and queues."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pamqp import base
from pamqp.commands import Exchange as Exchanges
from pamqp.commands import Queue as Queues

from tests.support import codec
from tests.support.in_process import socket_of
from tests.support.session import connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange_type import UpstreamExchange
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges.delayed_message import DelayedMessageExchange
from warren.plugins.exchanges.federated_presence import encode_path

from .broker import MeasuredPeer, StepMeter
from .test_publishes import NO_LIMIT, frames

LISTENERS, PRESENCES = 800, 100  # of which all pairs are notices
SUMMARY, MESSAGES, BINDINGS = 3_000, 10_000, 10
DELAY_MS = 50
OPTIONS = {"nowait", "arguments", "if_unused", "if_empty", "passive", "durable", "auto_delete", "exclusive", "internal"}
UPSTREAM = UpstreamExchange("site", "/", "up")


def listen(vhost: VHost, exchange: str, count: int = LISTENERS, key: str = "", durable: bool = False) -> None:
    for number in range(count):
        queue = vhost.declare_queue(f"q{number}", durable=durable, arguments=Table.of(NO_LIMIT))
        vhost.bind(exchange, queue, key, Table.EMPTY)


def method(kind: type[base.Frame], **fields: object) -> bytes:
    defaults = {name: {} if name == "arguments" else name == "nowait" for name in OPTIONS & set(kind.__slots__)}
    return codec.method_frame(1, kind, {**defaults, **fields})


def declare(queue: str, **fields: object) -> bytes:
    return method(Queues.Declare, queue=queue, **fields)


def bind(queue: str, exchange: str, key: str = "") -> bytes:
    return method(Queues.Bind, queue=queue, exchange=exchange, routing_key=key)


def unbind(queue: str, exchange: str, key: str = "") -> bytes:
    return method(Queues.Unbind, queue=queue, exchange=exchange, routing_key=key)


def one_read(peer: MeasuredPeer, data: bytes) -> Callable[[], None]:
    """Return the work that sends methods in one read of a new connection and waits for their effects."""
    client = peer.connect()
    client.channel()

    def work() -> None:
        socket_of(client).incoming += data
        peer.settle()
        peer.wait(0)

    return work


def presences(queue: str, count: int = PRESENCES, **fields: object) -> bytes:
    return declare(queue, **fields) + b"".join([bind(queue, "p", f"k{number}") for number in range(count)])


PAGED = pytest.param(True, id="paged", marks=pytest.mark.rest("needs more than a second"))


@pytest.mark.parametrize("paged", [pytest.param(False, id="in memory"), PAGED])
def test_notices_of_presences_that_begin_and_end_for_very_many_listeners(
    step_meter: StepMeter, tmp_path: Path, paged: bool
) -> None:
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1 if paged else 1 << 30):
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("p", "x-presence")
        listen(vhost, "p")
        published = vhost.queues["q0"]
        step_meter.measure(one_read(peer, presences("s")))
        assert published.published == PRESENCES
        step_meter.measure(one_read(peer, method(Queues.Delete, queue="s")))
        assert published.published == 2 * PRESENCES
        client = peer.connect()
        client.channel()
        socket_of(client).incoming += presences("s", exclusive=True)
        peer.settle()
        step_meter.measure(client.close)
        assert published.published == 4 * PRESENCES


def test_summaries_of_very_many_presences(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("p", "x-presence")
        one_read(peer, presences("s", SUMMARY))()
        listeners = b"".join([declare(f"l{number}") + bind(f"l{number}", "p") for number in range(BINDINGS)])
        step_meter.measure(one_read(peer, listeners + (unbind("l0", "p") + bind("l0", "p")) * BINDINGS))
        assert vhost.queues["l1"].ready == SUMMARY and vhost.queues["l0"].ready == (1 + BINDINGS) * SUMMARY
        step_meter.measure(one_read(peer, method(Queues.Delete, queue="s") + presences("s", 1)))
        assert vhost.queues["l1"].ready == 2 * SUMMARY + 1


@pytest.mark.parametrize("dropped", ["exchange", "virtual host"])
def test_what_a_presence_exchange_keeps_is_freed(step_meter: StepMeter, dropped: str) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("p", "x-presence")
        one_read(peer, presences("s", 2 * SUMMARY))()
        if dropped == "exchange":
            step_meter.measure(one_read(peer, method(Exchanges.Delete, exchange="p")))
            assert not vhost.queues["s"].incoming
        else:
            listen(vhost, "p", 100)
            peer.settle()
            step_meter.measure(peer.node.delete_vhost, "/")
            step_meter.measure(peer.settle)
            assert not vhost.queues and not vhost.emitting


def bring(vhost: VHost, action: str, key: str = "", **headers: object) -> None:
    """Pass a notice of a presence at another site to the exchange `p`."""
    path = encode_path((("site", "/"),))
    table = Table.of({"action": action, "queue": "up", "key": key, "x-received-from": path, **headers})
    vhost.exchanges["p"].type.on_federated(framed(RoutingAddress("up", ""), Properties(headers=table), b""), UPSTREAM)


def test_presences_at_other_sites(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("p", "x-presence")
        for number in range(SUMMARY):
            bring(vhost, "bind", f"k{number}")
        link = vhost.declare_exchange("link", "fanout", internal=True)
        vhost.bind("link", vhost.declare_queue("links"), "", Table.EMPTY)
        listens = Table.of({"x-presence-federated": True})
        step_meter.measure(step_meter.measured(vhost.bind), "p", link, "", listens)
        step_meter.measure(peer.settle)
        assert vhost.queues["links"].ready == SUMMARY + 2
        listen(vhost, "p", 100)
        peer.settle()
        for complete in (False, True):
            step_meter.measure(step_meter.measured(partial(bring, vhost, "summary", complete=complete)))
        step_meter.measure(peer.settle)
        for number in range(PRESENCES):
            bring(vhost, "bind", f"k{number}")
        peer.settle()
        listen(vhost, "p", LISTENERS // 2)
        peer.settle()
        step_meter.measure(step_meter.measured(vhost.exchanges["p"].type.on_upstream_detached), UPSTREAM)
        step_meter.measure(peer.settle)
        assert vhost.queues["q399"].published == 2 * PRESENCES


def test_messages_that_are_relayed_to_very_many_listeners(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("p", "x-presence", arguments=Table.of({"x-presence-relay": True}))
        listen(vhost, "p")
        step_meter.measure(one_read(peer, frames("p", "k") * PRESENCES))
        assert vhost.queues["q0"].published == PRESENCES


def test_a_message_for_a_chain_of_relays_with_very_many_listeners(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost, listeners, relays = peer.node.vhosts["/"], 6_000, 30
        listener = vhost.declare_queue("listener")
        listen(vhost, "amq.fanout", listeners)
        for number in range(relays):
            relay = vhost.declare_exchange(f"p{number}", "x-presence", arguments=Table.of({"x-presence-relay": True}))
            vhost.bind(f"p{number}", listener, "", Table.EMPTY)
            for way in ("a", "b"):
                between = vhost.declare_exchange(f"{way}{number}", "fanout")
                vhost.bind(f"p{number}", between, "", Table.EMPTY)
                vhost.bind(f"{way}{number}", vhost.exchanges["amq.fanout"], "", Table.EMPTY)
                if number:
                    vhost.bind(f"{way}{number - 1}", relay, "", Table.EMPTY)
        peer.settle()
        client = peer.connect()
        client.channel().confirm()
        published = listener.published
        step_meter.measure(client.raw, frames("p0", "k") * 2)
        step_meter.measure(peer.settle)
        step_meter.measure(peer.wait, 0)
        assert listener.published - published == 2
        assert {vhost.queues[name].published for name in ("q0", f"q{listeners - 1}")} == {2 * 2}


@pytest.mark.parametrize("body", [b"", bytes(1 << 20)], ids=["empty", "1 MiB"])
@pytest.mark.parametrize("durable", [False, True])
def test_a_long_history_for_many_new_bindings(
    step_meter: StepMeter, tmp_path: Path, durable: bool, body: bytes
) -> None:
    for peer in step_meter.stored_peers(tmp_path):
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange(
            "h", "x-recent-history", durable=durable, arguments=Table.of({"x-recent-history-length": MESSAGES})
        )
        kept = MESSAGES if not body else 30
        publish = one_read(peer, frames("h", "k", {"delivery_mode": 2}, body) * kept)
        publish()
        bindings = BINDINGS if not body else 2
        queues = [declare(f"q{number}", durable=durable) + bind(f"q{number}", "h") for number in range(bindings)]
        step_meter.measure(one_read(peer, b"".join(queues)))
        assert [vhost.queues[f"q{number}"].ready for number in range(bindings)] == [kept] * bindings
        step_meter.measure(one_read(peer, method(Exchanges.Delete, exchange="h")))


def test_a_history_before_very_many_queues(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("h", "x-recent-history", arguments=Table.of({"x-recent-history-length": MESSAGES}))
        vhost.declare_exchange("f", "fanout")
        listen(vhost, "f")
        one_read(peer, frames("h", "k") * PRESENCES)()
        binding = method(Exchanges.Bind, source="h", destination="f", routing_key="")
        step_meter.measure(one_read(peer, binding + frames("h", "k") * PRESENCES))
        assert vhost.queues["q0"].published == 2 * PRESENCES


@pytest.mark.parametrize("type_", ["fanout", "topic", "headers"])
@pytest.mark.parametrize("durable", [False, True])
def test_delayed_messages_that_are_due_at_the_same_time_for_very_many_queues(
    step_meter: StepMeter, tmp_path: Path, type_: str, durable: bool
) -> None:
    for peer in step_meter.stored_peers(tmp_path):
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("d", "x-delayed-message", durable=durable, arguments=Table.of({"x-delayed-type": type_}))
        listen(vhost, "d", key="#", durable=durable)
        delayed = {"headers": {"x-delay": DELAY_MS}, "delivery_mode": 2}
        one_read(peer, frames("d", "k", delayed) * PRESENCES)()
        step_meter.measure(peer.wait, 2 * DELAY_MS)
        assert vhost.queues["q0"].published == vhost.queues["q799"].published == PRESENCES


def test_a_delayed_message_for_very_many_queues_and_exchanges_that_relay(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        vhost, queues, relays = peer.node.vhosts["/"], 8_000, 300
        vhost.declare_exchange("d", "x-delayed-message", arguments=Table.of({"x-delayed-type": "fanout"}))
        listen(vhost, "d", queues)
        listener = vhost.declare_queue("listener")
        for number in range(relays):
            relay = vhost.declare_exchange(f"p{number}", "x-presence", arguments=Table.of({"x-presence-relay": True}))
            vhost.bind(f"p{number}", listener, "", Table.EMPTY)
            vhost.bind("d", relay, "", Table.EMPTY)
        peer.settle()
        one_read(peer, frames("d", "k", {"headers": {"x-delay": DELAY_MS}}))()
        published = listener.published
        step_meter.measure(peer.wait, 2 * DELAY_MS)
        assert vhost.queues[f"q{queues - 1}"].published == 1 and listener.published - published == relays


def test_few_of_very_many_publishes_whose_targets_are_searched_for_are_handled_at_once() -> None:
    node = new_node()
    node.registry.register("x-delayed-message", DelayedMessageExchange)
    arguments = Table.of({"x-delayed-type": "fanout"})
    exchange = node.vhosts["/"].declare_exchange("d", "x-delayed-message", arguments=arguments)
    client = connected(node)
    client.channel()
    client.raw(frames("d", "k", {"headers": {"x-delay": 10**6}}) * MESSAGES)
    assert 0 < exchange.publish_in < 400, "25 us each"


def test_long_delayed_messages_are_read_a_few_at_a_time(step_meter: StepMeter, tmp_path: Path) -> None:
    for peer in step_meter.stored_peers(tmp_path):
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("d", "x-delayed-message", durable=True, arguments=Table.of({"x-delayed-type": "fanout"}))
        listen(vhost, "d", 2, durable=True)
        delayed = {"headers": {"x-delay": DELAY_MS}, "delivery_mode": 2}
        one_read(peer, frames("d", "k", delayed, bytes(1 << 20)) * 10)()
        step_meter.measure(peer.wait, 2 * DELAY_MS)
        assert vhost.queues["q0"].published == 10
