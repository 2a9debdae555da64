"""Histories of clients: each operation with its invocation and its end, as lines of JSON.

    {"client": 3, "type": "invoke", "f": "publish", "value": "3-17", "time_ns": 81234}

`type` is invoke, ok, fail (it had no effect) or info (it may have had its effect, now or later). `f` is

    publish   ends with its confirm
    take      a basic.get, its acknowledgement and the tx.commit of that; it names its value at its end
    empty     a basic.get of an empty queue, which is invoked as a take

Client 0 drains the queue when all others have ended: its last line is an `empty`.
"""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.amqp_client import Channel, Closed, Silence
from tools.failover.load import PERSISTENT, accepts, connect

QUEUE = "linear"
PAUSE_S = 0.005
JOIN_S = 60.0


class History:
    """The lines of all clients, in the order of their times."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._lock = threading.Lock()

    def add(self, client: int, type_: str, f: str, value: str = "") -> None:
        with self._lock:  # the time within it: the order of the lines is that of the times
            line = {"client": client, "type": type_, "f": f, "value": value, "time_ns": time.monotonic_ns()}
            self._lines.append(json.dumps(line))

    def write(self, path: Path) -> None:
        path.write_text("".join(f"{line}\n" for line in self._lines), encoding="utf-8")

    @property
    def count(self) -> int:
        return len(self._lines)


class Client(threading.Thread):
    """A client that does one operation after the other at the broker that accepts it. After an operation whose end is
    unknown it has another number, as its next one may overlap it. `error` is what ended it."""

    def __init__(self, number: int, addresses: Sequence[str], history: History, step: int = 100) -> None:
        super().__init__(daemon=True)
        self.error = ""
        self._number, self._step = number, step
        self._addresses, self._history = list(addresses), history
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                client = connect(self._addresses[0])
                channel = client.channel()
                self.prepare(channel)
            except (Closed, Silence, OSError):
                self._addresses.append(self._addresses.pop(0))
                self._ended.wait(PAUSE_S)
                continue
            try:
                while not self._ended.is_set():
                    self.operate(channel)
                    self._ended.wait(PAUSE_S)
            except (Closed, Silence, OSError):
                self._number += self._step
            except Exception as error:
                self.error = repr(error)
                raise
            finally:
                client.vanish()

    def prepare(self, channel: Channel) -> None:
        raise NotImplementedError

    def operate(self, channel: Channel) -> None:
        """Do one operation. Raises Closed, Silence, OSError after its end was noted as unknown."""
        raise NotImplementedError

    def note(self, type_: str, f: str, value: str = "") -> None:
        self._history.add(self._number, type_, f, value)


class Publisher(Client):
    """A publisher that waits for each confirm."""

    _published = _settled = 0

    def prepare(self, channel: Channel) -> None:
        channel.confirm()
        self._settled = 0

    def operate(self, channel: Channel) -> None:
        self._published += 1
        value = f"{self._number}-{self._published}"
        self.note("invoke", "publish", value)
        try:
            channel.publish("", QUEUE, value.encode(), PERSISTENT)
            self._settled += 1
            acked, _ = channel.confirms([self._settled])
        except (Closed, Silence, OSError):
            self.note("info", "publish", value)
            raise
        self.note("ok" if acked else "fail", "publish", value)


class Taker(Client):
    """A client that gets messages, acknowledges them and commits that."""

    def prepare(self, channel: Channel) -> None:
        channel.transact()

    def operate(self, channel: Channel) -> None:
        self.take(channel)

    def take(self, channel: Channel) -> bool:
        """Take a message; return False if there is none."""
        value = ""
        self.note("invoke", "take")
        try:
            message = channel.get(QUEUE, no_ack=False)
            if message is None:
                self.note("ok", "empty")
                return False
            value = message.body.decode()
            channel.ack(message.tag)
            channel.commit()
        except (Closed, Silence, OSError):
            self.note("info", "take", value)
            raise
        self.note("ok", "take", value)
        return True


class Clients:
    """Publishers and takers at these addresses."""

    def __init__(self, addresses: Sequence[str], publishers: int = 4, takers: int = 3) -> None:
        self.history, self._addresses = History(), addresses
        client = connect(next(filter(accepts, addresses)))
        client.channel().declare(QUEUE, durable=True)
        client.close()
        numbers = range(1, publishers + takers + 1)
        self._clients = [
            (Publisher if number <= publishers else Taker)(number, addresses, self.history) for number in numbers
        ]
        for one in self._clients:
            one.start()

    def finish(self, path: Path) -> int:
        """End the clients, drain the queue, write the history, and return the number of its lines."""
        for one in self._clients:
            one.end()
        for one in self._clients:
            one.join(JOIN_S)
            assert not one.error and not one.is_alive(), one.error or "a client does not end"
        client = connect(next(filter(accepts, self._addresses)))
        channel = client.channel()
        last = Taker(0, self._addresses, self.history)
        last.prepare(channel)
        while last.take(channel):
            pass
        client.close()
        self.history.write(path)
        return self.history.count
