"""rabbit-hole, Go's client of the HTTP API: its requests, the types it decodes, and the checks of its own tests.

It decodes into typed structures, so a field of another type is an error and a missing one is zero; DELETE of a missing
object succeeds; 401 is a separate error.
"""

import uuid
from urllib.parse import quote, unquote

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


def check(found, shape, needs=()):
    """Check types as encoding/json does; [] for an empty object, as PHP writes it, is accepted only for tags."""
    for key, type_ in shape.items():
        value = found.get(key)
        if value is None or value == "undefined":
            continue
        number = type_ is int and isinstance(value, float)
        assert isinstance(value, type_) or number, (key, value)
        assert type_ is bool or not isinstance(value, bool), (key, value)
    missing = set(needs or shape) - found.keys()
    assert not missing, (missing, found)


def test_overview_and_nodes(api):
    overview = api.get("/overview")
    check(overview, OVERVIEW, ("rabbitmq_version", "cluster_name", "node", "object_totals", "listeners", "rates_mode"))
    assert {"connections", "channels", "exchanges", "queues", "consumers"} <= overview["object_totals"].keys()
    assert len(overview["exchange_types"]) >= 4
    assert all(isinstance(listener["port"], int) and listener["protocol"] for listener in overview["listeners"])
    (node,) = until(lambda: [node for node in api.get("/nodes") if "mem_used" in node])
    check(node, NODE)
    check(api.get(f"/nodes/{node['name']}"), NODE, ("name", "type", "running"))
    assert {"name"} <= api.get("/cluster-name").keys()


def test_queues(api, path):
    assert (
        api.put(f"/queues/{path}/q", {"durable": False, "auto_delete": True, "arguments": {"x-max-length": 1}}) == 201
    )
    assert (
        api.put(f"/queues/{path}/q", {"durable": False, "auto_delete": True, "arguments": {"x-max-length": 1}}) == 204
    )
    queue = until(lambda: one_with(api, f"/queues/{path}/q", "messages"))
    check(queue, QUEUE, ("name", "vhost", "durable", "auto_delete", "arguments", "node", "type", "messages"))
    assert [queue["name"] for queue in api.get(f"/queues/{path}")] == ["q"]
    assert "q" in [queue["name"] for queue in api.get("/queues")]
    page = api.get(f"/queues/{path}?page=1&page_size=10")
    assert (page["page"], page["page_count"], page["filtered_count"], page["item_count"]) == (1, 1, 1, 1)
    assert api.call("DELETE", f"/queues/{path}/q/contents").status == 204
    assert api.call("DELETE", f"/queues/{path}/q?if-unused=true&if-empty=true").status == 204
    missing = api.call("GET", f"/queues/{path}/q")
    assert (missing.status, missing.body) == (404, {"error": "Object Not Found", "reason": "Not Found"})
    assert api.delete(f"/queues/{path}/q") == 404


def one_with(api, path, key):
    found = api.get(path)
    return found if key in found else None


def test_exchanges_and_bindings(api, path):
    wanted = {"type": "topic", "durable": True, "auto_delete": False, "arguments": {}}
    assert api.put(f"/exchanges/{path}/x", wanted) == 201
    check(api.get(f"/exchanges/{path}/x"), EXCHANGE)
    exchanges = api.get(f"/exchanges/{path}")
    assert exchanges[0]["name"] == "" and exchanges[0]["durable"] is True
    api.put(f"/queues/{path}/q", {"durable": True})
    reply = api.call("POST", f"/bindings/{path}/e/x/q/q", {"routing_key": "a.*", "arguments": {"one": "two"}})
    assert reply.status == 201, reply
    properties = reply.headers["location"].rpartition("/")[2]
    for where in (f"/bindings/{path}", f"/exchanges/{path}/x/bindings/source", f"/queues/{path}/q/bindings"):
        (binding,) = [binding for binding in api.get(where) if binding["source"] == "x"]
        check(binding, BINDING)
        assert binding["properties_key"] == unquote(properties)
    (implicit,) = [binding for binding in api.get(f"/queues/{path}/q/bindings") if binding["source"] == ""]
    assert (implicit["routing_key"], implicit["properties_key"]) == ("q", "q")
    assert api.call("DELETE", f"/bindings/{path}/e/x/q/q/{properties}").status == 204
    assert api.delete(f"/exchanges/{path}/x") == 204


def test_connections_channels_and_consumers(api, vhost, path, channel):
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, consumer_tag="t")
    (connection,) = until(lambda: api.get(f"/vhosts/{path}/connections"))
    check(connection, CONNECTION, ("name", "node", "user", "vhost", "host", "port", "client_properties"))
    name = quote(connection["name"], "")
    until(lambda: one_with(api, f"/connections/{name}", "channels"))
    (listed,) = until(lambda: [each for each in api.get(f"/vhosts/{path}/channels") if "consumer_count" in each])
    check(listed, CHANNEL, ("number", "name", "node", "user", "vhost"))
    assert api.get(f"/connections/{name}/channels")[0]["number"] == 1
    check(api.get(f"/channels/{quote(listed['name'], '')}"), CHANNEL, ("number", "connection_details"))
    (consumer,) = until(lambda: api.get(f"/consumers/{path}"))
    check(consumer, CONSUMER, ("consumer_tag", "queue", "channel_details", "ack_required", "arguments"))
    assert consumer["queue"] == {"name": "q", "vhost": vhost}


def test_statistics_have_samples_when_they_are_asked_for(api, path, channel):
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    query = "?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"

    def look():
        details = api.get(f"/queues/{path}/q{query}").get("messages_details", {})
        return details if details.get("samples") else None

    details = until(look)
    assert {"rate", "samples", "avg_rate", "avg"} <= details.keys()
    assert {"sample", "timestamp"} <= details["samples"][0].keys()


def test_virtual_hosts_users_and_permissions(api):
    name = f"rabbit-hole.{uuid.uuid4().hex[:8]}"
    wanted = {"description": "a place", "tags": "production,eu", "default_queue_type": "classic", "tracing": False}
    assert api.put(f"/vhosts/{name}", wanted) == 201
    try:
        found = api.get(f"/vhosts/{name}")
        check(found, VHOST, ("name", "description", "tags", "tracing"))
        assert (found["description"], sorted(found["tags"])) == ("a place", ["eu", "production"])
        api.put(f"/users/{name}", {"password": "s3krE7", "tags": "policymaker, management"})
        user = api.get(f"/users/{name}")
        check(user, USER)
        assert sorted(user["tags"]) == ["management", "policymaker"]
        api.put(f"/permissions/{name}/{name}", {"configure": "log.*", "write": "log.*", "read": "log.*"})
        (permission,) = api.get(f"/users/{name}/permissions")
        assert permission == {
            "user": name, "vhost": name, "configure": "log.*", "write": "log.*", "read": "log.*"
        }  # fmt: skip
        assert name in [row["user"] for row in api.get(f"/vhosts/{name}/permissions")]
        assert api.get("/whoami")["name"] == "guest"
    finally:
        api.delete(f"/users/{name}")
        api.delete(f"/vhosts/{name}")


def test_the_hash_of_a_password_is_taken(api):
    """The example of RabbitMQ's guide: test12 with the salt 908D C60A."""
    name = f"rabbit-hole.{uuid.uuid4().hex[:8]}"
    given = {"password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "tags": "monitoring"}
    api.put(f"/users/{name}", given | {"hashing_algorithm": "rabbit_password_hashing_sha256"})
    try:
        assert api.call("GET", "/whoami", user=name, password="test12").status == 200
    finally:
        api.delete(f"/users/{name}")


def test_global_parameters(api):
    api.put("/global-parameters/rabbit-hole", {"value": {"a": [1]}})
    try:
        assert api.get("/global-parameters/rabbit-hole") == {"name": "rabbit-hole", "value": {"a": [1]}}
        assert "internal_cluster_id" in [parameter["name"] for parameter in api.get("/global-parameters")]
    finally:
        assert api.delete("/global-parameters/rabbit-hole") == 204
