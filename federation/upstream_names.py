"""The names of the queue and the internal exchanges that an exchange link declares upstream.

They are exactly RabbitMQ's: a link that takes over from a RabbitMQ uses its queue, as does a restarted link.
"""

from warren.broker.amqp.limits import SHORT_STRING
from warren.broker.plugin import Invalid

GENERATIONS = ("A", "B")  # of the internal exchange, used alternately


def base_name(upstream_exchange: str, cluster_name: str, vhost: str, exchange: str, upstream_vhost: str) -> str:
    """Return the name of the upstream queue. `cluster_name`, `vhost` and `exchange` are those of the downstream.

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
    """Return the other generation. An unknown one counts as A, so the first is B."""
    return "A" if generation == "B" else "B"
