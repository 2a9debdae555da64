"""The commands whose results `report` prints, for support and bug reports.

list_parameters is left out, as URIs of upstreams contain passwords.
"""

from __future__ import annotations

from collections.abc import Iterator

OF_NODE = (
    ["status"],
    ["cluster_status"],
    ["environment"],
    [
        *("list_connections", "pid", "name", "port", "peer_port", "host", "peer_host", "ssl", "state", "channels"),
        *("auth_mechanism", "user", "vhost", "timeout", "frame_max", "channel_max", "client_properties", "recv_oct"),
        *("recv_cnt", "send_oct", "send_cnt", "send_pend", "connected_at"),
    ],
    [
        *("list_channels", "pid", "connection", "name", "number", "user", "vhost", "transactional", "confirm"),
        *("consumer_count", "messages_unacknowledged", "messages_uncommitted", "acks_uncommitted"),
        *("messages_unconfirmed", "prefetch_count", "global_prefetch_count"),
    ],
)
OF_VHOST = (
    [
        *("list_queues", "name", "type", "durable", "auto_delete", "exclusive", "arguments", "policy"),
        *("operator_policy", "messages", "messages_ready", "messages_unacknowledged", "messages_persistent"),
        *("message_bytes", "consumers", "state"),
    ],
    ["list_exchanges", "name", "type", "durable", "auto_delete", "internal", "arguments", "policy"],
    ["list_bindings"],
    ["list_permissions"],
    ["list_policies"],
)


def lines(vhosts: list[str]) -> Iterator[list[str]]:
    """Return the command lines."""
    yield from OF_NODE
    for vhost in vhosts:
        for line in OF_VHOST:
            yield [*line, "--vhost", vhost]
