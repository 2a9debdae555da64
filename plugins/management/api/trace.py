"""A live trace: a stream of samples of the messages that are published and delivered in a virtual host.

A traced virtual host handles each message separately, which is several times slower. So a trace examines only the first
messages of each second.
"""

import asyncio
import base64
import json
import time

from warren.broker.core.queues.route_target import Targets
from warren.broker.core.queues.traffic_log import Origin
from warren.broker.core.telemetry.firehose import TRACE
from warren.broker.core.vhost.tracer import Tracer
from warren.broker.plugin import Message, VHost

from ...http.auth import ADMIN
from ...http.responses import missing
from ..framework.line_stream import NDJSON, LineStream
from ..framework.pagination import Item
from ..framework.request import DEFAULT_EXCHANGE, Request
from ..framework.router import route
from .messages import is_text, json_of_properties
from .warren import duration_s

SECOND_S = 1.0
SHOWN_LIMIT = 20  # messages shown of each second
SEEN_LIMIT = 500  # messages looked at in each second, whether they are shown or not
BODY_BYTES = 1024  # shown of a body


class LiveTrace(Tracer):
    """The trace of one stream; it is a tracer of the virtual host for the first messages of each second.

    An empty `exchange` or `queue` stands for all: with a queue alone only deliveries and publishes that it received
    are shown, with an exchange alone only messages published to it.
    """

    __slots__ = ("_vhost", "_stream", "_exchange", "_queue", "_shown", "_seen", "_attached", "_loop", "_timer")

    def __init__(self, vhost: VHost, stream: LineStream, exchange: str | None, queue: str | None) -> None:
        self._vhost = vhost
        self._stream = stream
        self._exchange = exchange
        self._queue = queue
        self._shown = self._seen = 0
        self._attached = False
        self._loop = asyncio.get_running_loop()
        self._next_second()  # now, so that each message published after the begin of the response is seen

    def _next_second(self) -> None:
        if self._seen > self._shown:
            self._stream.put(json.dumps({"seen": self._seen, "shown": self._shown}))
        self._shown = self._seen = 0
        if not self._attached:
            self._attached = True
            self._vhost.add_tracer(self)
        self._timer = self._loop.call_later(SECOND_S, self._next_second)

    def _detach(self) -> None:
        if self._attached:
            self._attached = False
            self._vhost.remove_tracer(self)

    def close(self) -> None:
        """End the trace."""
        self._timer.cancel()
        self._detach()

    def _takes(self, matches: bool) -> bool:
        """Count a message; return whether it is shown."""
        if self._shown >= SHOWN_LIMIT or self._seen >= SEEN_LIMIT:
            return False
        self._seen += 1
        self._shown += matches
        if self._shown >= SHOWN_LIMIT or self._seen >= SEEN_LIMIT:
            self._loop.call_soon(self._detach)  # not here, where the virtual host is busy with the message
        return matches

    def published(self, origin: Origin, message: Message, keys: tuple[str, ...], queues: Targets) -> None:
        names = [queue.name for queue in queues]
        matches = self._exchange in (None, message.address.exchange) and (self._queue is None or self._queue in names)
        if self._takes(matches and message.address.exchange != TRACE):
            self._put("publish", origin, message, {"routing_keys": list(keys), "queues": names})

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        matches = self._exchange in (None, message.address.exchange) and self._queue in (None, queue)
        if self._takes(matches and message.address.exchange != TRACE):
            keys = [message.address.routing_key]
            self._put("deliver", origin, message, {"routing_keys": keys, "queue": queue, "redelivered": redelivered})

    def _put(self, event: str, origin: Origin, message: Message, more: Item) -> None:
        body = message.body[:BODY_BYTES]
        text = is_text(body)
        item = {
            "event": event,
            "at_ms": time.time_ns() // 1_000_000,
            "exchange": message.address.exchange,
            **more,
            "user": origin.user,
            "connection": origin.connection,
            "channel": origin.channel,
            "properties": json_of_properties(message.properties),
            "payload_bytes": message.body_bytes,
            "payload_encoding": "string" if text else "base64",
            "payload": body.decode() if text else base64.b64encode(body).decode(),
        }
        self._stream.put(json.dumps(item, separators=(",", ":"), default=str))


# It slows down the virtual host, so pages of other sites may not ask for it.
@route("GET", ADMIN, "/warren/trace/{vhost}", changes=True)
def trace(request: Request) -> LineStream:
    """Stream samples of the messages that pass an exchange or a queue, a JSON object in a line each.

    The query may name an `exchange` (`amq.default` for the default one), a `queue` and a `duration` in seconds. At
    most 20 messages of each second are shown; an object with `seen` and `shown` follows if there were others.
    """
    vhost, query = request.path_vhost(), request.query
    exchange, queue = query.get("exchange") or None, query.get("queue") or None
    if exchange == DEFAULT_EXCHANGE:
        exchange = ""
    if (exchange is not None and exchange not in vhost.exchanges) or (queue is not None and queue not in vhost.queues):
        raise missing()
    stream = LineStream(NDJSON, duration_s(request), lambda number: json.dumps({"missed": number}))
    live = LiveTrace(vhost, stream, exchange, queue)
    stream.leave = live.close
    return stream
