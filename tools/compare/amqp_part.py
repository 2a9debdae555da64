"""The AMQP part of the comparison: run every probe on both brokers and compare replies and errors."""

import contextlib
from collections.abc import Iterator
from typing import Any

from pika.exceptions import AMQPError, ChannelClosed, ConnectionClosed, NackError, UnroutableError

from .amqp_probes import PASSWORD, PROBES, STRANGER, WEAK, Probe, V
from .brokers import Broker, NoAnswer
from .documents import Difference, text_of

RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
NO_RIGHTS = {"configure": "^weak$", "write": "", "read": "^$"}
LOGINS = (  # user, password, virtual host
    ("compare-nosuch", "x", V),
    (WEAK, "wrong", V),
    (WEAK, PASSWORD, "compare-nosuch"),
    (STRANGER, PASSWORD, V),
)


def run(warren: Broker, reference: Broker) -> tuple[int, list[Difference]]:
    """Return the number of compared probes, and the differences."""
    ours, theirs = outcomes(warren), outcomes(reference)
    found = [
        Difference(f"amqp {name}", "outcome", ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]
    ]
    return len(ours), found


def outcomes(broker: Broker) -> dict[str, str]:
    """Return the outcome of each probe, by name."""
    clean(broker)
    try:
        with prepared(broker):
            found = {probe.name: normalised(outcome(broker, probe), broker) for probe in PROBES}
            for user, password, vhost in LOGINS:
                found[f"login {user} {vhost}"] = normalised(login(broker, user, password, vhost), broker)
        return found
    finally:
        clean(broker)


@contextlib.contextmanager
def prepared(broker: Broker) -> Iterator[None]:
    """The virtual host with its objects, and a connection that owns a queue and consumes from another."""
    broker.request("PUT", f"/vhosts/{V}", {})
    broker.request("PUT", f"/permissions/{V}/{broker.user}", RIGHTS)
    for user in (WEAK, STRANGER):
        broker.request("PUT", f"/users/{user}", {"password": PASSWORD, "tags": ""})
    broker.request("PUT", f"/permissions/{V}/{WEAK}", NO_RIGHTS)
    connection = broker.connect(vhost=V)
    try:
        channel = connection.channel()
        for name in ("q", "used"):
            channel.queue_declare(name, durable=True)
        channel.queue_declare("qq", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("t", durable=False)
        channel.queue_declare("mine", exclusive=True)
        channel.exchange_declare("x", "topic", durable=True)
        channel.exchange_declare("i", "direct", durable=True, internal=True)
        channel.exchange_declare("bound", "fanout", durable=True)
        channel.queue_bind("t", "bound", "")
        channel.confirm_delivery()
        channel.basic_publish("", "used", b"kept")
        channel.basic_consume("used", lambda *_: None)
        connection.process_data_events(0.2)
        yield
    finally:
        connection.close()


def outcome(broker: Broker, probe: Probe) -> str:
    """Return the reply of a probe, or the code and text of its error."""
    connection = broker.connect(probe.user, PASSWORD if probe.user else "", V)
    try:
        replied = probe.call(connection.channel())
        return f"taken: {method_name(replied)}"
    except ChannelClosed as error:
        return f"channel closed: {error.reply_code} {error.reply_text}"
    except ConnectionClosed as error:
        return f"connection closed: {error.reply_code} {error.reply_text}"
    except (UnroutableError, NackError) as error:
        return type(error).__name__
    except (AMQPError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        broker.request("DELETE", f"/queues/{V}/new")
        broker.request("DELETE", f"/exchanges/{V}/new")
        with contextlib.suppress(AMQPError):
            connection.close()


def method_name(replied: Any) -> str:
    """Return a reply's method name, as its counts and tags vary."""
    method = getattr(replied, "method", None)
    return str(method.NAME) if method is not None and hasattr(method, "NAME") else type(replied).__name__


def login(broker: Broker, user: str, password: str, vhost: str) -> str:
    """Return the answer to a login that is refused."""
    try:
        broker.connect(user, password, vhost).close()
    except NoAnswer as error:
        cause = error.__cause__
        code, text = getattr(cause, "reply_code", ""), getattr(cause, "reply_text", "")
        return f"{type(cause).__name__}: {code} {text}".strip()
    return "let in"


def normalised(text: str, broker: Broker) -> str:
    return text_of(text, broker.names)


def clean(broker: Broker) -> None:
    broker.request("DELETE", f"/vhosts/{V}")
    for user in (WEAK, STRANGER):
        broker.request("DELETE", f"/users/{user}")
