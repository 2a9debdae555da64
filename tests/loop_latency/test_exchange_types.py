"""Very many bindings to an exchange of a plugin's type hold no step of the loop: their removal, publishes meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support import codec
from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.plugins.exchanges import recent_history
from warren.plugins.exchanges.random_exchange import LocalRandomExchange

from .broker import Prompter, StepMeter, fill
from .meter import TURN_MS, limit_ms

BINDINGS = 50_000
CHANGED = 2_000
TYPES = ["x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"]


def delete_exchange(prompter: Prompter, unbinds: list[bytes]) -> None:
    prompter.send(Exchange.Delete, exchange="x", nowait=True)


def delete_queue(prompter: Prompter, unbinds: list[bytes]) -> None:
    prompter.send(Queue.Delete, queue="q", nowait=True)


def unbind_and_publish(prompter: Prompter, unbinds: list[bytes]) -> None:
    publish = codec.method_frame(1, Basic.Publish, {"exchange": "x", "routing_key": "k"}) + codec.header_frame(1, 0)
    prompter.socket.incoming += b"".join([unbind + publish for unbind in unbinds])


@pytest.mark.parametrize("action", [delete_exchange, delete_queue, unbind_and_publish], ids=lambda each: each.__name__)
@pytest.mark.parametrize("type_", TYPES)
def test_very_many_bindings_of_one_queue(
    step_meter: StepMeter, type_: str, action: Callable[[Prompter, list[bytes]], None]
) -> None:
    key = "1" if type_ == "x-consistent-hash" else ""
    arguments = [Table.of({"number": number}) for number in range(BINDINGS)]
    unbind = {"queue": "q", "exchange": "x", "routing_key": key}
    unbinds = [codec.method_frame(1, Queue.Unbind, unbind | {"arguments": {"number": n}}) for n in range(CHANGED)]
    for peer in step_meter.peers(limit_ms(BINDINGS)):
        vhost = peer.node.vhosts["/"]
        vhost.declare_exchange("x", type_)
        queue = vhost.declare_queue("q", arguments=Table.of({"x-max-length": 0}))
        for each in arguments:
            vhost.bind("x", queue, key, each)
        prompter = Prompter(peer)
        step_meter.begin()
        action(prompter, unbinds)
        peer.settle()
        peer.wait(0)
        assert len(queue.incoming) == (BINDINGS - CHANGED if action is unbind_and_publish else 0)
        assert not len(peer.node.scheduler)


def test_a_change_of_what_is_bound_does_not_look_at_all_of_it() -> None:
    exchange = LocalRandomExchange("x", Table.EMPTY)
    bindings = [Binding("x", Destination(f"q{number}"), "", Table.EMPTY) for number in range(2 * BINDINGS)]
    for binding in bindings:
        exchange.on_bind(binding)
    message = framed(RoutingAddress("x", ""), Properties(), b"")
    begun_s = time.thread_time()
    for binding in bindings[:CHANGED]:
        exchange.on_unbind(binding)
        assert exchange.route(("",), message)
    assert within((time.thread_time() - begun_s) * 1000, TURN_MS)


def test_a_long_message_that_displaces_very_many_of_a_history(
    step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_bytes, count = 9 << 20, 14_000
    monkeypatch.setattr(recent_history, "HISTORY_BYTES", kept_bytes)
    long = codec.method_frame(1, Basic.Publish, {"exchange": "h", "routing_key": ""})
    long += codec.header_frame(1, kept_bytes) + codec.body_frames(1, bytes(kept_bytes), 1 << 17)
    for peer in step_meter.stored_peers(tmp_path):
        channel = peer.connect().channel()
        channel.exchange("h", "x-recent-history", durable=True, arguments={"x-recent-history-length": 1_000_000})
        fill(peer, "", count, "h")
        history: Any = peer.node.vhosts["/"].exchanges["h"].type
        assert len(history._kept) == count
        step_meter.begin()
        peer.connect().channel().client.raw(long)
        peer.wait(0)
        assert len(history._kept) == recent_history.DEFAULT_LENGTH
