"""Settings of sessions, from the configuration."""

from dataclasses import dataclass

from ..amqp.field_table import Table

FRAME_MAX = 131_072  # the clients' default, which limits header frames if the broker sets no limit
HEADER_OVERHEAD = 22  # bytes of a header frame beside the properties


@dataclass(slots=True, eq=False)
class Settings:
    """Limits and defaults of all connections and channels of a node, named as in the configuration.

    Sizes are in bytes. No limit is 0 in the values that connection.tune negotiates, and None in all others.
    `descriptor_connections` is how many connections the limit of open files allows, which the server sets.
    """

    server_properties: Table
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    anonymous_user: str | None = None
    anonymous_pass: str = ""
    channel_max: int = 2047
    frame_max: int = FRAME_MAX
    heartbeat_s: int = 60
    initial_frame_max: int = 8192
    max_message_size: int = 16_777_216
    connection_max: int | None = None
    descriptor_connections: int | None = None
    channel_max_per_node: int | None = None
    consumer_max_per_channel: int | None = None
    default_consumer_prefetch: int = 0
    consumer_timeout_ms: int | None = 1_800_000
    transaction_max_bytes: int = 134_217_728

    def properties_fault(self, size_bytes: int) -> str:
        """Return why no client can publish or get a message with `size_bytes` of properties, or an empty text."""
        if size_bytes + HEADER_OVERHEAD > (self.frame_max or FRAME_MAX):
            return f"properties of {size_bytes} bytes do not fit a frame of this broker"
        return ""


CAPABILITIES = (
    *("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify"),
    *("connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos"),
    "direct_reply_to",
)


def server_properties(product: str, version: str, platform: str) -> Table:
    """Return the server properties of connection.start, without the name of the cluster."""
    return Table.of(
        {
            "capabilities": Table.of(dict.fromkeys(CAPABILITIES, True)),
            "copyright": "Copyright (c) the Warren authors",
            "information": "Licensed under the Apache License 2.0",
            "platform": platform,
            "product": product,
            "version": version,
        }
    )
