"""One message of each of many queues whose messages are in the journal alone, of which each read brings very many."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp.commands import Basic

from tests.support import codec
from warren.broker.core.queues import ready_messages

from .broker import Prompter, StepMeter, StoredPeer
from .test_headers import publish

QUEUES = 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a broker that was killed with full queues of durable messages."""
    folder = tmp_path_factory.mktemp("paged")
    peer = StoredPeer(StepMeter(), folder / "running")
    channel = peer.connect().channel()
    for number in range(QUEUES):
        channel.declare(f"q{number}", durable=True, arguments={"x-max-length": ready_messages.UNPAGE})
        publish(peer, "", f"q{number}", ready_messages.UNPAGE, delivery_mode=2)
    peer.wait(0)
    shutil.copytree(folder / "running", folder / "killed")
    peer.close()
    return folder / "killed"


def get(prompter: Prompter, number: int) -> None:
    prompter.socket.incoming += codec.method_frame(1, Basic.Get, {"queue": f"q{number}", "no_ack": True})


def consume(prompter: Prompter, number: int) -> None:
    fields = {"queue": f"q{number}", "consumer_tag": f"c{number}", "nowait": True, "arguments": {}}
    prompter.socket.incoming += codec.method_frame(1, Basic.Consume, fields)


def publish_one(prompter: Prompter, number: int) -> None:
    prompter.socket.incoming += codec.method_frame(1, Basic.Publish, {"routing_key": f"q{number}"})
    prompter.socket.incoming += codec.header_frame(1, 0, {"delivery_mode": 2})


@pytest.mark.parametrize(("request_", "connections"), [(get, 1), (consume, 1), (consume, QUEUES), (publish_one, 1)])
def test_one_request_to_each_of_many_queues(
    step_meter: StepMeter, store: Path, tmp_path: Path, request_: Callable[[Prompter, int], None], connections: int
) -> None:
    for number in step_meter.attempts():
        folder = tmp_path / str(number)
        shutil.copytree(store, folder)
        peer = StoredPeer(step_meter, folder)
        prompters = [Prompter(peer) for _ in range(connections)]
        for prompter in prompters:
            prompter.send(Basic.Qos, prefetch_count=1)
        queues = peer.node.vhosts["/"].queues.values()
        assert {queue.ready_messages.default.resident for queue in queues} == {0}
        step_meter.begin()
        for number in range(QUEUES):
            request_(prompters[number % connections], number)
        peer.settle()
        peer.wait(0)
        left = ready_messages.UNPAGE if request_ is publish_one else ready_messages.UNPAGE - 1
        assert {queue.ready for queue in queues} == {left}
        assert {queue.dropped for queue in queues} == {int(request_ is publish_one)}
        assert {queue.ready_messages.default.resident for queue in queues} == {ready_messages.UNPAGE - 1}
        peer.close()


def test_short_messages_of_several_queues_that_keep_their_ids_alone(step_meter: StepMeter, tmp_path: Path) -> None:
    """Each queue stores its own copy, as they have different deadlines."""
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1 << 20):
        channel = peer.connect().channel()
        channel.exchange("f", "fanout")
        for number in range(12):
            channel.declare(f"q{number}", arguments={"x-message-ttl": 3_600_000 + number})
            channel.publish("", f"q{number}", bytes(1100 << 10))
            channel.bind(f"q{number}", "f")
        peer.wait(0)
        one = codec.method_frame(1, Basic.Publish, {"exchange": "f"}) + codec.header_frame(1, 0, None)
        step_meter.begin()
        channel.client.raw(one * 2000)
        peer.settle()
        queues = peer.node.vhosts["/"].queues.values()
        assert {queue.ready for queue in queues} == {2001}
        assert all(queue.ready_messages.resident < 2 for queue in queues)
