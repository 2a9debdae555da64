"""The names of what an exchange link declares upstream: its queue and its internal exchanges.

They are RabbitMQ's, letter for letter: a link that takes over from a RabbitMQ finds its queue, and so does a restart.
"""

from __future__ import annotations

from warren.broker.amqp.limits import SHORT_STRING
from warren.broker.plugin import Invalid

GENERATIONS = ("A", "B")  # of the internal exchange, in turns


def base_name(upstream_exchange: str, cluster_name: str, vhost: str, exchange: str, upstream_vhost: str) -> str:
    """Return the name of the upstream queue. `cluster_name`, `vhost`, `exchange` are the downstream's, which is here.

    Raises Invalid if the internal exchange's name would be too long.
    """
    suffix = ""
    if vhost != upstream_vhost:
        suffix = f":{vhost}:{exchange}"
    elif exchange != upstream_exchange:
        suffix = f":{exchange}"
    base = f"federation: {upstream_exchange} -> {cluster_name}{suffix}"
    internal_name(base, GENERATIONS[0])
    return base


def internal_name(base: str, generation: str) -> str:
    """Return the name of the internal exchange. Raises Invalid if it is too long for AMQP."""
    name = f"{base} {generation}"
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > SHORT_STRING:
        raise Invalid(
            f"'{name}' has {size} bytes, and a name {SHORT_STRING} at most: shorten the name of the exchange, "
            "the virtual host or the cluster"
        )
    return name


def next_generation(generation: str) -> str:
    """Return the generation after this one. An unknown one counts as A, so the first one ever is B."""
    return "A" if generation == "B" else "B"
