"""The bytes that an upstream may send, and the URIs of upstreams."""

from pamqp import commands

from tests.support import codec
from warren.broker.amqp.errors import OperatorError
from warren.broker.amqp.properties import Properties
from warren.federation.hop_headers import MALFORMED, ExchangeStamp, QueueStamp, drop_reason
from warren.federation.upstream.delivery_parser import OTHERS_MAX, DeliveryParser
from warren.federation.upstream.endpoint import parse_endpoint
from warren.federation.upstream.errors import LinkError
from warren.federation.upstream.frame_check import is_for_decoder

from .target import Target, Turn, pieces

BODY_MAX = 600
DELIVER = codec.method_frame(1, commands.Basic.Deliver, {"consumer_tag": "c", "delivery_tag": 1, "routing_key": "k"})
HEADERS = {"headers": {"x-received-from": [{"uri": "amqp://a", "cluster-name": "c", "vhost": "/"}], "a": 1}}
START = codec.method_frame(0, commands.Connection.Start, {"server_properties": {"cluster_name": "c"}})


def read_upstream(data: bytes, turn: Turn) -> None:
    """The same deliveries and frames however the input is cut; headers of any content are stamped."""
    results = []
    for parts in (pieces(data), [b"".join(pieces(data))]):
        parser, deliveries, others = DeliveryParser(BODY_MAX), [], []  # type: ignore[var-annotated]
        fault = ""
        for part in parts:
            try:
                parser.feed(part, deliveries, others)
            except LinkError as error:
                fault = str(error)
                break
            turn()
        assert parser._kept_bytes <= BODY_MAX + OTHERS_MAX
        results.append((deliveries, others, fault))
    assert results[0] == results[1]
    exchange, queue = (
        ExchangeStamp("amqp://a", "e", "c", "/", False),
        QueueStamp("amqp://a", "q", True, ("c", "/", "q")),
    )
    for delivery in results[0][0]:
        raw = delivery.properties
        drop_reason(raw, 2, "c", "/")
        exchange(raw, delivery.redelivered)
        queue(raw, delivery.redelivered, "e", "k")
        try:
            Properties.decode(raw)
        except MALFORMED:
            pass
    turn()
    for number, frame in enumerate(results[0][1]):
        try:
            is_for_decoder(frame, number > 0)
        except LinkError:
            break


def read_uri(data: bytes, turn: Turn) -> None:
    """A URI is an endpoint or an error without its password."""
    uri = data.decode("utf-8", "replace")
    try:
        repr(parse_endpoint(uri))
    except OperatorError:
        pass


UPSTREAM = Target(
    "upstream",
    read_upstream,
    [
        b"\0" + START + (DELIVER + codec.header_frame(1, 4, HEADERS) + codec.frame(3, 1, b"body")) * 2,
        b"\2\7\1" + DELIVER + codec.header_frame(1, 4) + codec.frame(3, 1, b"bo") + codec.frame(3, 1, b"dy"),
        b"\0" + START + codec.method_frame(0, commands.Connection.Tune, {"channel_max": 1}) + codec.BEAT,
    ],
)
URIS = Target(
    "uris",
    read_uri,
    [
        b"amqps://user:p%40ss@[::1]:5671/%2F?heartbeat=10&channel_max=5&auth_mechanism=plain&verify=verify_peer",
        b"amqp:///vhost",
        b"amqp://host:5672?connection_timeout=100&frame_max=4096",
    ],
    512,
)
