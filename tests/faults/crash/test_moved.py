"""kill -9 while messages of a queue are moved to another: each is in one of them, and they are in order."""

import threading

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.polling import WITHIN_S

from .conftest import check_sound, drain_queue
from .test_restarted import confirmed

MANY = 3_000
BODIES = [b"%d" % number for number in range(MANY)]
MOVE = "/warren/queues/%2F/from/move"

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]


class Mover(threading.Thread):
    """Moves all messages, a part in each request, until the broker is gone. `moved` counts those that were answered."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._http = broker.http()
        self.moved = 0
        self.enough = threading.Event()

    def run(self) -> None:
        body = {"destination": {"queue": "to"}, "count": 10}
        try:
            while True:
                self.moved += self._http.post(MOVE, body).json["moved"]
                if self.moved >= MANY // 10:
                    self.enough.set()
        except (OSError, ValueError):
            return


@pytest.mark.parametrize("attempt", range(3))
def test_a_moved_message_survives_in_one_queue(daemon: BrokerProcess, attempt: int) -> None:
    daemon.start("--http", ANY_PORT)
    client = daemon.connect()
    for name in ("from", "to"):
        client.channel().declare(name, durable=True)
    confirmed(client, "from", BODIES)
    mover = Mover(daemon)
    mover.start()
    assert mover.enough.wait(WITHIN_S)
    daemon.kill()
    daemon.start()
    after = daemon.connect()
    mover.join(WITHIN_S)
    kept, moved = drain_queue(after, "from"), drain_queue(after, "to")
    assert moved + kept == BODIES, "each message once, in order"
    assert len(moved) >= mover.moved
    check_sound(daemon)
