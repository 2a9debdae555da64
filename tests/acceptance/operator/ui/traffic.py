"""Live traffic for the pages: a publisher and a consumer in a thread of their own."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.polling import WITHIN_S

PAUSE_S = 0.02  # between messages


def acknowledge(channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    channel.basic_ack(method.delivery_tag)


class Traffic:
    """Publishes to an exchange and consumes from a queue until the end of the context."""

    def __init__(self, address: tuple[str, int], exchange: str, routing_key: str, queue: str) -> None:
        self._address = address
        self._exchange = exchange
        self._routing_key = routing_key
        self._queue = queue
        self._end = threading.Event()
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end.set()
        self._thread.join(WITHIN_S)
        assert self._failed is None, self._failed

    def _run(self) -> None:
        try:
            with pika.BlockingConnection(pika.ConnectionParameters(*self._address)) as connection:
                channel = connection.channel()
                channel.basic_qos(prefetch_count=7)
                channel.basic_consume(self._queue, acknowledge, consumer_tag="reader")
                while not self._end.is_set():
                    channel.basic_publish(self._exchange, self._routing_key, b"live")
                    connection.process_data_events()
                    self._end.wait(PAUSE_S)  # events of the connection would end a wait for them at once
        except Exception as error:
            self._failed = error
