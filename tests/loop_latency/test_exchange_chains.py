"""A message that passes very many exchanges, which read it, holds no step of the loop and takes little memory."""

import gc
import shutil
from pathlib import Path

import pytest

from tests.support.traced_memory import traced_memory
from warren.broker.amqp.field_table import Table
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges.recent_history import NO_STORE

from .broker import MeasuredPeer, StepMeter, StoredPeer
from .test_publishes import NO_LIMIT, frames, send

EXCHANGES = 400
HEADERS = {f"h{number}": None for number in range(1_000)}
HASH, HISTORY, DELAYED = "x-consistent-hash", "x-recent-history", "x-delayed-message"


def chain(
    vhost: VHost,
    type_: str,
    arguments: dict[str, object],
    key: str = "1",
    count: int = EXCHANGES,
    durable: bool = False,
) -> None:
    """Declare exchanges x0, x1 ... and the queue `end`, each bound to the one before."""
    for number in range(count):
        vhost.declare_exchange(f"x{number}", type_, durable=durable, arguments=Table.of(arguments))
        if number:
            vhost.bind(f"x{number - 1}", vhost.exchanges[f"x{number}"], key, Table.EMPTY)
    vhost.bind(f"x{count - 1}", vhost.declare_queue("end"), key, Table.EMPTY)


@pytest.mark.parametrize(
    ("type_", "arguments", "headers"),
    [
        (HASH, {"hash-header": "h999"}, {}),
        (HASH, {"hash-header": "nested"}, {"nested": {str(number): None for number in range(20)}}),
        (HASH, {"hash-property": "message_id"}, {}),
        (HISTORY, {}, {NO_STORE: True}),
        (DELAYED, {"x-delayed-type": "direct"}, {"x-delay": 0}),
        ("direct", {"x-message-deduplication": True}, {"x-deduplication-header": "a"}),
        ("direct", {"x-message-deduplication": True}, {"x-deduplication-header": [None] * 20}),
        ("headers", {}, {}),
    ],
)
def test_headers_that_each_exchange_on_the_way_reads(
    peer: MeasuredPeer, step_meter: StepMeter, type_: str, arguments: dict[str, object], headers: dict[str, object]
) -> None:
    vhost = peer.node.vhosts["/"]
    chain(vhost, type_, arguments)
    if type_ == "headers":
        for number in range(EXCHANGES):
            vhost.bind(f"x{number}", vhost.queues["end"], "", Table.of({"none": None}))
    attempts = 0
    for _ in step_meter.attempts():
        attempts += 1
        own = {"message_id": str(attempts), "headers": {**HEADERS, **headers, "attempt": attempts}}
        if "x-message-deduplication" in arguments:
            own["headers"]["x-deduplication-header"] = [headers["x-deduplication-header"], attempts]
        send(peer, step_meter, frames("x0", "1", own) * 2)
    assert vhost.queues["end"].ready == attempts * (1 if "x-message-deduplication" in arguments else 2)


def test_different_headers_that_one_exchange_decodes(peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost) -> None:
    """Each table is decoded anew. Those of arrays have the most values in the fewest bytes."""
    chain(vhost, HASH, {"hash-header": "h1"}, count=1)
    data = b"".join([frames("x0", "1", {"headers": {"h1": [None] * 1_000, "number": number}}) for number in range(100)])
    for _ in step_meter.attempts():
        send(peer, step_meter, data)
    assert vhost.queues["end"].ready % 100 == 0


def test_very_many_consistent_hash_exchanges_with_one_message_take_little_memory(
    peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost
) -> None:
    chain(vhost, HASH, {})
    gc.collect()
    with traced_memory() as memory:
        step_meter.begin()
        send(peer, step_meter, frames("x0", "key"))
    assert vhost.queues["end"].ready == 1
    assert memory.held_bytes < EXCHANGES * 1_000


def test_the_first_message_of_a_consistent_hash_exchange_with_very_many_queues(
    peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost
) -> None:
    count = 40_000
    vhost.declare_exchange("x", HASH)
    for number in range(count):
        queue = vhost.declare_queue(f"q{number}", arguments=Table.of(NO_LIMIT))
        vhost.bind("x", queue, "1", Table.EMPTY)
    attempts = 0
    for _ in step_meter.attempts():
        attempts += 1
        vhost.unbind("x", vhost.queues[f"q{attempts}"], "1", Table.EMPTY)  # so that no slot is assigned
        send(peer, step_meter, b"".join([frames("x", f"{attempts}.{number}") for number in range(3)]))
    assert sum(queue.published for queue in vhost.queues.values()) == 3 * attempts


def test_a_long_message_that_very_many_durable_exchanges_store(step_meter: StepMeter, tmp_path: Path) -> None:
    peer = StoredPeer(step_meter, tmp_path)
    vhost = peer.node.vhosts["/"]
    chain(vhost, HISTORY, {}, count=40, durable=True)
    data = frames("x0", "1", body=bytes(1 << 20))
    for _ in step_meter.attempts():
        send(peer, step_meter, data)
    assert vhost.queues["end"].ready
    peer.close()


def test_a_long_message_that_very_many_durable_exchanges_keep_is_stored_once(
    step_meter: StepMeter, tmp_path: Path
) -> None:
    body_bytes, exchanges = 1 << 20, 100
    killed, restarted = tmp_path / "killed", tmp_path / "restarted"
    for folder in (killed, restarted):
        with traced_memory() as memory:
            peer = StoredPeer(step_meter, folder)
            vhost = peer.node.vhosts["/"]
            if folder is killed:
                chain(vhost, HISTORY, {}, count=exchanges, durable=True)
                send(peer, step_meter, frames("x0", "1", body=bytes(body_bytes)))
                shutil.copytree(killed, restarted)
        assert peer.journal.written_bytes < 2 * body_bytes
        assert memory.peak_bytes < 16 * body_bytes
        for number in range(exchanges):
            vhost.bind(f"x{number}", vhost.declare_queue(f"late{number}"), "", Table.EMPTY)
        peer.settle()
        assert [vhost.queues[f"late{number}"].ready for number in range(exchanges)] == [1] * exchanges
        peer.close()
