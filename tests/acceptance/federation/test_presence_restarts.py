"""A federated x-presence exchange over the end and the start of its broker, as a process."""

from pathlib import Path

import pytest

from tests.support.federated_broker import FederatedBroker
from tests.support.polling import until

from .test_presence import X, notice

pytestmark = pytest.mark.sockets


def test_a_broker_that_was_restarted_tells_only_what_happened_meanwhile(tmp_path: Path) -> None:
    up, down = FederatedBroker(tmp_path / "up", "up"), FederatedBroker(tmp_path / "down", "down")
    try:
        up.launch()
        down.start()
        up.wait_ready()
        channel = up.connect().channel()
        for warren in (up, down):
            warren.connect().channel().exchange(X, "x-presence", durable=True)
        for name in ("stays", "goes", "comes"):
            channel.declare(name, durable=True)
        for name in ("stays", "goes"):
            channel.bind(name, X, name)
        listener = down.connect().channel()
        listener.declare("listener", durable=True)
        listener.bind("listener", X, "")
        down.federate("^fed", up.uri)
        until(lambda: down.queues()["listener"] == 2, lambda: str((down.queues(), down.rows())))
        down.kill()
        channel.delete("goes")
        channel.bind("comes", X, "comes")
        down.start()
        down.running()
        listener = down.connect().channel()
        until(lambda: down.queues()["listener"] >= 2, lambda: str((down.queues(), down.rows())))
        until(lambda: not up.queues()[f"federation: {X} -> down"], lambda: str(up.queues()))
        received = listener.get_all("listener")
        assert [notice(content)[:2] for content in received] == [("unbind", "goes"), ("bind", "comes")]
        listener.declare("late")
        listener.bind("late", X, "")
        late = listener.get_all("late")
        assert sorted(notice(content)[:2] for content in late) == [("bind", "comes"), ("bind", "stays")]
    finally:
        down.close()
        up.close()
