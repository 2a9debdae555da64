"""rabbit-hole, Go's client of the HTTP API: the types that it decodes.

It decodes into typed structures, so a field of another type is an error and a missing one is zero.
"""

import pytest

from tests.support.polling import until

# The types of each list and object: key -> type, if present and not null.
OVERVIEW = {
    "management_version": str, "rates_mode": str, "rabbitmq_version": str, "cluster_name": str, "erlang_version": str,
    "node": str, "statistics_db_event_queue": int, "queue_totals": dict, "object_totals": dict, "listeners": list,
    "contexts": list, "exchange_types": list, "message_stats": dict, "churn_rates": dict,
}  # fmt: skip
NODE = {
    "name": str, "type": str, "running": bool, "os_pid": str, "mem_used": int, "mem_limit": int, "mem_alarm": bool,
    "disk_free": int, "disk_free_limit": int, "disk_free_alarm": bool, "fd_used": int, "fd_total": int,
    "sockets_used": int, "sockets_total": int, "proc_used": int, "proc_total": int, "uptime": int, "run_queue": int,
    "processors": int, "exchange_types": list, "auth_mechanisms": list, "applications": list, "contexts": list,
    "partitions": list, "cluster_links": list,
}  # fmt: skip
CONNECTION = {
    "name": str, "node": str, "channels": int, "state": str, "type": str, "ssl": bool, "user": str, "vhost": str,
    "protocol": str, "auth_mechanism": str, "host": str, "port": int, "peer_host": str, "peer_port": int,
    "timeout": int, "frame_max": int, "recv_cnt": int, "send_cnt": int, "recv_oct": int, "send_oct": int,
    "client_properties": dict, "connected_at": int,
}  # fmt: skip
CHANNEL = {
    "number": int, "name": str, "node": str, "user": str, "vhost": str, "transactional": bool, "confirm": bool,
    "consumer_count": int, "messages_unacknowledged": int, "messages_unconfirmed": int, "messages_uncommitted": int,
    "acks_uncommitted": int, "prefetch_count": int, "connection_details": dict,
}  # fmt: skip
QUEUE = {
    "name": str, "vhost": str, "durable": bool, "auto_delete": bool, "exclusive": bool, "arguments": dict, "node": str,
    "type": str, "state": str, "messages": int, "messages_ready": int, "messages_unacknowledged": int,
    "consumers": int, "memory": int, "message_bytes": int, "message_bytes_ready": int,
}  # fmt: skip
EXCHANGE = {
    "name": str, "vhost": str, "type": str, "durable": bool, "auto_delete": bool, "internal": bool, "arguments": dict,
}  # fmt: skip
BINDING = {
    "source": str, "vhost": str, "destination": str, "destination_type": str, "routing_key": str, "arguments": dict,
    "properties_key": str,
}  # fmt: skip
VHOST = {"name": str, "description": str, "tags": list, "default_queue_type": str, "tracing": bool}
USER = {"name": str, "password_hash": str, "hashing_algorithm": str, "tags": list}
CONSUMER = {
    "consumer_tag": str, "ack_required": bool, "exclusive": bool, "prefetch_count": int, "active": bool,
    "activity_status": str, "arguments": dict, "queue": dict, "channel_details": dict,
}  # fmt: skip


def check(found, shape):
    """Check types as encoding/json does; [] for an empty object, as PHP writes it, is accepted only for tags."""
    for key, type_ in shape.items():
        value = found.get(key)
        if value is None or value == "undefined":
            continue
        number = type_ is int and isinstance(value, float)
        assert isinstance(value, type_) or number, (key, value)
        assert type_ is bool or not isinstance(value, bool), (key, value)


OBJECTS = {
    "/overview": (OVERVIEW, "rabbitmq_version cluster_name node object_totals listeners rates_mode"),
    "/nodes": (NODE, " ".join(NODE)),
    "/vhosts/{path}/connections": (CONNECTION, "name node user vhost host port client_properties channels"),
    "/vhosts/{path}/channels": (CHANNEL, "number name node user vhost connection_details consumer_count"),
    "/consumers/{path}": (CONSUMER, "consumer_tag queue channel_details ack_required arguments"),
    "/queues/{path}": (QUEUE, "name vhost durable auto_delete arguments node type messages"),
    "/queues/{path}/q": (QUEUE, "name vhost durable auto_delete arguments node type messages"),
    "/exchanges/{path}": (EXCHANGE, " ".join(EXCHANGE)),
    "/bindings/{path}": (BINDING, " ".join(BINDING)),
    "/vhosts/{path}": (VHOST, "name description tags tracing"),
    "/users/guest": (USER, " ".join(USER)),
}


@pytest.mark.parametrize("where", OBJECTS)
def test_fields_have_the_types_that_it_decodes(api, path, channel, where):
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, consumer_tag="t")
    shape, needs = OBJECTS[where]

    def look():
        found = api.get(where.format(path=path))
        found = found if isinstance(found, list) else [found]
        return found if found and all(set(needs.split()) <= each.keys() for each in found) else None

    for each in until(look):
        check(each, shape)
