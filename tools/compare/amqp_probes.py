"""AMQP 0-9-1 methods that are sent to both brokers; most are refused.

Each probe has a channel of its own in the virtual host V, which has the queues `q` (durable, classic), `qq` (quorum),
the transient `t` and `mine`, which is exclusive to another connection, and the exchanges `x` (topic), `i` (internal)
and `bound`, which has a queue bound to it. Add a probe as a line with a unique name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

V = "compare-amqp"
WEAK, STRANGER, PASSWORD = "compare-amqp-weak", "compare-amqp-stranger", "compare-password"


@dataclass(frozen=True)
class Probe:
    """One or more methods on a channel. `user` sends them; "" is an administrator."""

    name: str
    call: Callable[[BlockingChannel], object]
    user: str = ""


def declare(name: str, arguments: Mapping[str, Any] | None = None, **flags: Any) -> Callable[[BlockingChannel], object]:
    """Declare a queue, durable by default."""
    return lambda channel: channel.queue_declare(name, arguments=arguments, **{"durable": True, **flags})


def exchange(name: str, kind: str, arguments: Mapping[str, Any] | None = None, **flags: Any) -> Any:
    return lambda channel: channel.exchange_declare(name, kind, arguments=arguments, **{"durable": True, **flags})


def confirmed(
    exchange_name: str, key: str, body: bytes = b"x", **properties: Any
) -> Callable[[BlockingChannel], object]:
    """Publish with a confirm, so that an error arrives before the end of the probe."""

    def call(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange_name, key, b"x", pika.BasicProperties(**properties), mandatory=True)

    return call


INEQUIVALENT = {
    "durable": declare("q", durable=False),
    "auto_delete": declare("q", auto_delete=True),
    "exclusive": declare("q", exclusive=True),
    "ttl": declare("q", {"x-message-ttl": 1000}),
    "max length of another type": declare("q", {"x-max-length": "5"}),
    "quorum for classic": declare("q", {"x-queue-type": "quorum"}),
    "classic for quorum": declare("qq", {"x-queue-type": "classic"}),
    "no type for quorum": declare("qq"),
    "classic for classic": declare("q", {"x-queue-type": "classic"}),
}
# queue arguments, valid and invalid
ARGUMENTS: dict[str, dict[str, Any]] = {
    **{f"ttl {value!r}": {"x-message-ttl": value} for value in (-1, "1000", True, 1.5, 1 << 33, None)},
    **{f"expires {value!r}": {"x-expires": value} for value in (0, -1, "1000", 1 << 33)},
    **{f"max-length {value!r}": {"x-max-length": value} for value in (-1, "5", True)},
    **{f"max-length-bytes {value!r}": {"x-max-length-bytes": value} for value in (-1, "5")},
    **{f"max-priority {value!r}": {"x-max-priority": value} for value in (-1, 256, "5", 255)},
    **{f"overflow {value!r}": {"x-overflow": value} for value in ("nosuch", 1, "reject-publish-dlx")},
    **{f"queue type {value!r}": {"x-queue-type": value} for value in ("nosuch", 1, True)},
    **{f"single active consumer {value!r}": {"x-single-active-consumer": value} for value in ("x", 1, True)},
    **{f"queue mode {value!r}": {"x-queue-mode": value} for value in ("nosuch", 1, "lazy")},
    **{f"queue version {value!r}": {"x-queue-version": value} for value in (3, "2", 2)},
    "dead letter exchange a number": {"x-dead-letter-exchange": 1},
    "dead letter key alone": {"x-dead-letter-routing-key": "k"},
    "dead letter key a number": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 1},
    "quorum with priorities": {"x-queue-type": "quorum", "x-max-priority": 5},
    "quorum lazy": {"x-queue-type": "quorum", "x-queue-mode": "lazy"},
    "quorum reject-publish-dlx": {"x-queue-type": "quorum", "x-overflow": "reject-publish-dlx"},
    "quorum delivery limit": {"x-queue-type": "quorum", "x-delivery-limit": "x"},
    "delivery limit of a classic queue": {"x-delivery-limit": 5},
    "master locator": {"x-queue-master-locator": "nosuch"},
    "unknown argument": {"x-nosuch": 1},
}
PROBES: tuple[Probe, ...] = (
    *(Probe(f"declare inequivalent: {name}", call) for name, call in INEQUIVALENT.items()),
    *(Probe(f"declare argument: {name}", declare("new", given)) for name, given in ARGUMENTS.items()),
    Probe("declare quorum transient", declare("new", {"x-queue-type": "quorum"}, durable=False)),
    Probe("declare quorum exclusive", declare("new", {"x-queue-type": "quorum"}, exclusive=True)),
    Probe("declare quorum auto-delete", declare("new", {"x-queue-type": "quorum"}, auto_delete=True)),
    Probe("declare reserved", declare("amq.new")),
    Probe("declare long", declare("q" * 255)),
    Probe("declare passive unknown", declare("nosuch", passive=True)),
    Probe("declare passive of another connection", declare("mine", passive=True)),
    Probe("declare of another connection", declare("mine", durable=False, exclusive=True)),
    Probe("delete unknown", lambda channel: channel.queue_delete("nosuch")),
    Probe("delete of another connection", lambda channel: channel.queue_delete("mine")),
    Probe("delete if unused and used", lambda channel: channel.queue_delete("used", if_unused=True)),
    Probe("delete if empty and filled", lambda channel: channel.queue_delete("used", if_empty=True)),
    Probe("purge unknown", lambda channel: channel.queue_purge("nosuch")),
    Probe("purge of another connection", lambda channel: channel.queue_purge("mine")),
    Probe("declare no last queue", lambda channel: channel.queue_bind("", "x", "k")),
    Probe("bind unknown queue", lambda channel: channel.queue_bind("nosuch", "x", "k")),
    Probe("bind unknown exchange", lambda channel: channel.queue_bind("q", "nosuch", "k")),
    Probe("bind default exchange", lambda channel: channel.queue_bind("q", "", "k")),
    Probe("unbind unknown", lambda channel: channel.queue_unbind("q", "x", "nosuch")),
    Probe("unbind unknown exchange", lambda channel: channel.queue_unbind("q", "nosuch", "k")),
    Probe("unbind default exchange", lambda channel: channel.queue_unbind("q", "", "q")),
    Probe("exchange inequivalent type", exchange("x", "fanout")),
    Probe("exchange inequivalent durable", exchange("x", "topic", durable=False)),
    Probe("exchange inequivalent auto_delete", exchange("x", "topic", auto_delete=True)),
    Probe("exchange inequivalent internal", exchange("x", "topic", internal=True)),
    Probe("exchange inequivalent argument", exchange("x", "topic", {"alternate-exchange": "y"})),
    Probe("exchange unknown type", exchange("new", "compare-unknown-type")),
    Probe("exchange empty type", exchange("new", "")),
    Probe("exchange reserved", exchange("amq.new", "direct")),
    Probe("exchange default", exchange("", "direct")),
    Probe("exchange alternate a number", exchange("new", "direct", {"alternate-exchange": 1})),
    Probe("exchange passive unknown", exchange("nosuch", "direct", passive=True)),
    Probe("exchange delete unknown", lambda channel: channel.exchange_delete("nosuch")),
    Probe("exchange delete default", lambda channel: channel.exchange_delete("")),
    Probe("exchange delete reserved", lambda channel: channel.exchange_delete("amq.direct")),
    Probe("exchange delete used", lambda channel: channel.exchange_delete("bound", if_unused=True)),
    Probe("exchange bind unknown", lambda channel: channel.exchange_bind("x", "nosuch", "k")),
    Probe("exchange bind default", lambda channel: channel.exchange_bind("x", "", "k")),
    Probe("exchange unbind unknown", lambda channel: channel.exchange_unbind("x", "nosuch", "k")),
    Probe("publish unknown exchange", confirmed("nosuch", "k")),
    Probe("publish internal exchange", confirmed("i", "k")),
    Probe("publish unroutable", confirmed("x", "nosuch")),
    Probe("publish expiration a word", confirmed("", "q", expiration="x")),
    Probe("publish expiration negative", confirmed("", "q", expiration="-1")),
    Probe("publish expiration a fraction", confirmed("", "q", expiration="1.5")),
    Probe("publish another user", confirmed("", "q", user_id="nosuch")),
    Probe("publish CC a text", confirmed("", "q", headers={"CC": "x"})),
    Probe("publish BCC numbers", confirmed("", "q", headers={"BCC": [1]})),
    Probe("get unknown", lambda channel: channel.basic_get("nosuch")),
    Probe("get of another connection", lambda channel: channel.basic_get("mine")),
    Probe("consume unknown", lambda channel: channel.basic_consume("nosuch", print)),
    Probe("consume of another connection", lambda channel: channel.basic_consume("mine", print)),
    Probe("consume exclusive and used", lambda channel: channel.basic_consume("used", print, exclusive=True)),
    Probe(
        "consume priority a text",
        lambda channel: channel.basic_consume("q", print, arguments={"x-priority": "x"}),
    ),
    Probe("ack unknown", lambda channel: settle(channel, lambda: channel.basic_ack(99))),
    Probe("nack unknown", lambda channel: settle(channel, lambda: channel.basic_nack(99))),
    Probe("reject unknown", lambda channel: settle(channel, lambda: channel.basic_reject(99))),
    Probe("qos with a size", lambda channel: channel.basic_qos(prefetch_size=1)),
    Probe("recover", lambda channel: channel.basic_recover(True)),
    Probe("recover without requeue", lambda channel: channel.basic_recover(False)),
    Probe("commit without tx", lambda channel: channel.tx_commit()),
    Probe("rollback without tx", lambda channel: channel.tx_rollback()),
    Probe("confirm after tx", lambda channel: [channel.tx_select(), channel.confirm_delivery()]),
    Probe("tx after confirm", lambda channel: [channel.confirm_delivery(), channel.tx_select()]),
    Probe("declare without rights", declare("new"), WEAK),
    Probe("delete without rights", lambda channel: channel.queue_delete("q"), WEAK),
    Probe("purge without rights", lambda channel: channel.queue_purge("q"), WEAK),
    Probe("get without rights", lambda channel: channel.basic_get("q"), WEAK),
    Probe("consume without rights", lambda channel: channel.basic_consume("q", print), WEAK),
    Probe("publish without rights", confirmed("x", "k"), WEAK),
    Probe("publish to the default exchange without rights", confirmed("", "q"), WEAK),
    Probe("exchange without rights", exchange("new", "direct"), WEAK),
    Probe("exchange delete without rights", lambda channel: channel.exchange_delete("x"), WEAK),
    Probe("bind without rights", lambda channel: channel.queue_bind("q", "x", "k"), WEAK),
    Probe("declare dead letters without rights", declare("weak", {"x-dead-letter-exchange": "x"}), WEAK),
)


def settle(channel: BlockingChannel, send: Callable[[], object]) -> None:
    """Send a method without reply, then one with a reply, so that an error arrives first."""
    send()
    channel.queue_declare("q", passive=True)
