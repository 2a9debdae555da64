"""The names that a link of an exchange gives to what it makes at its upstream (spec/federation.md 5).

They are RabbitMQ's to the letter: a link that is taken over from one finds its queue again, and so does the next start.
"""

from __future__ import annotations

from warren.broker.plugin import SHORT_STRING, Invalid

LETTERS = ("A", "B")  # of the internal exchange, which take turns


def base_name(upstream_exchange: str, cluster_name: str, vhost: str, exchange: str, upstream_vhost: str) -> str:
    """That of the upstream queue. `cluster_name`, `vhost`, `exchange` are of the downstream, which is here.

    Raises Invalid where the internal exchange could not be called after it.
    """
    suffix = ""
    if vhost != upstream_vhost:
        suffix = f":{vhost}:{exchange}"
    elif exchange != upstream_exchange:
        suffix = f":{exchange}"
    base = f"federation: {upstream_exchange} -> {cluster_name}{suffix}"
    internal_name(base, LETTERS[0])
    return base


def internal_name(base: str, letter: str) -> str:
    """That of the internal exchange. Raises Invalid where it is too long for AMQP."""
    name = f"{base} {letter}"
    octets = len(name.encode("utf-8", "surrogateescape"))
    if octets > SHORT_STRING:
        raise Invalid(
            f"'{name}' has {octets} octets, and a name {SHORT_STRING} at most: shorten the name of the exchange, "
            "the virtual host or the cluster"
        )
    return name


def other_letter(letter: str) -> str:
    """The one that comes next. What is unknown counts as A, so the first one ever is B."""
    return "A" if letter == "B" else "B"
