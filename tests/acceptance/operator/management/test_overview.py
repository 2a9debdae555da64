"""The overview and the node."""

import base64
from typing import Any

from tests.support.http import Api
from warren.broker.core.access.passwords import hash_password, verify_password
from warren.broker.plugin import Service

ZERO = {"rate": 0.0}


def test_the_overview_has_all_that_tools_read(api: Api) -> None:
    body = api.get("/overview").json
    for name in (
        *("management_version", "rabbitmq_version", "product_name", "product_version", "rates_mode", "cluster_name"),
        *("sample_retention_policies", "erlang_version", "erlang_full_version", "cluster_tags", "node_tags"),
        *("disable_stats", "default_queue_type", "enable_queue_totals", "is_op_policy_updating_enabled"),
        *("churn_rates", "message_stats", "statistics_db_event_queue", "node", "listeners", "contexts"),
    ):
        assert name in body, name
    assert body["rabbitmq_version"].startswith("4.") and body["product_name"] == "Warren"
    assert {"direct", "fanout", "topic", "headers"} <= {one["name"] for one in body["exchange_types"]}
    assert all(one["enabled"] and one["description"] for one in body["exchange_types"])
    descriptions = {one["name"]: one["description"] for one in body["exchange_types"]}
    assert descriptions["topic"] == "AMQP topic exchange, as per the AMQP specification"
    assert set(body["object_totals"]) == {"consumers", "queues", "exchanges", "connections", "channels"}
    assert body["queue_totals"]["messages"] == 0 and body["queue_totals"]["messages_details"] == ZERO
    assert body["sample_retention_policies"]["global"] == [600, 3600, 28800, 86400]


def loaded(api: Api) -> None:
    """Two messages in the virtual host `/`, and one in `other`, which management users may not see."""
    api.peer.add_vhost("other")
    api.host.node.users.set_permission("guest", "other", ".*", ".*", ".*")
    for vhost, count in (("/", 2), ("other", 1)):
        channel = api.peer.connect(vhost=vhost).channel()
        channel.declare("q")
        for _ in range(count):
            channel.publish("", "q", b"body")
        channel.consume("q", no_ack=False)
    api.peer.settle()


def test_totals_are_of_all_or_of_visible_virtual_hosts(api: Api) -> None:
    loaded(api)
    api.peer.add_user("m", ("management",))
    whole, part = api.get("/overview").json, api.get("/overview", user="m").json
    assert (whole["message_stats"]["publish"], part["message_stats"]["publish"]) == (3, 2)
    assert (whole["queue_totals"]["messages"], part["queue_totals"]["messages"]) == (3, 2)
    assert (whole["object_totals"]["queues"], part["object_totals"]["queues"]) == (2, 1)
    assert (whole["object_totals"]["consumers"], part["object_totals"]["connections"]) == (2, 0)
    assert whole["churn_rates"]["queue_created"] == 2 and part["churn_rates"] == whole["churn_rates"]
    assert not {"node", "listeners", "contexts"} & set(part)
    assert part["message_stats"]["publish_details"] == ZERO == part["queue_totals"]["messages_details"]
    scoped = api.get("/overview", headers={"X-Vhost": "other"}).json
    assert (scoped["message_stats"]["publish"], scoped["object_totals"]["queues"]) == (1, 1)


def test_samples_of_several_virtual_hosts_are_added_up(api: Api) -> None:
    loaded(api)
    api.host.node.users.add("m", b"", ("management",))
    for vhost in ("/", "other"):
        api.host.node.users.set_permission("m", vhost, "", "", "")
    for _ in range(3):
        api.sample()
        api.peer.clock.advance(5000)
    api.host.node.users.change_password("m", hash_password("m", b"salt"))
    asked = "?lengths_age=60&lengths_incr=5"
    of_all, of_two = api.get("/overview" + asked).json, api.get("/overview" + asked, user="m").json
    assert of_all["queue_totals"]["messages_details"] == of_two["queue_totals"]["messages_details"]
    samples = of_two["queue_totals"]["messages_details"]["samples"]
    assert [one["sample"] for one in samples] == [3, 3, 3]
    assert samples[0]["timestamp"] - samples[1]["timestamp"] == 5000


def test_columns_choose_of_the_overview_too(api: Api) -> None:
    body = api.get("/overview?columns=rabbitmq_version,queue_totals.messages,object_totals.queues,nope").json
    assert set(body) == {"rabbitmq_version", "queue_totals", "object_totals"}
    assert body["queue_totals"]["messages"] == 0 and body["object_totals"] == {"queues": 0}


def node_of(api: Api, query: str = "") -> dict[str, Any]:
    (node,) = api.get("/nodes" + query).json
    assert isinstance(node, dict)
    return node


def test_a_node_has_all_that_tools_read(api: Api) -> None:
    node = node_of(api)
    for name in (
        *("name", "type", "running", "being_drained", "os_pid", "fd_used", "fd_total", "sockets_used", "sockets_total"),
        *("proc_used", "proc_total", "mem_used", "mem_limit", "mem_alarm", "mem_calculation_strategy", "disk_free"),
        *("disk_free_limit", "disk_free_alarm", "gc_num", "gc_bytes_reclaimed", "context_switches", "io_read_count"),
        *("msg_store_read_count", "queue_index_read_count", "mnesia_disk_tx_count", "run_queue", "processors"),
        *("uptime", "exchange_types", "auth_mechanisms", "applications", "contexts", "enabled_plugins", "rates_mode"),
        *("partitions", "cluster_links", "net_ticktime", "log_files", "config_files", "db_dir"),
        *("metrics_gc_queue_length", "connection_created", "queue_deleted_details", "mem_used_details"),
        "ra_open_file_metrics",
    ):
        assert name in node, name
    assert {"longest_turn_ms", "longest_turn_since_start_ms", "tasks"} <= node["event_loop"].keys()
    assert node["type"] == "disc" and node["running"] is True and node["os_pid"].isdigit()
    assert {"rabbitmq_event_exchange", "rabbitmq_auth_mechanism_ssl"} <= set(node["enabled_plugins"])
    assert {"PLAIN", "AMQPLAIN"} <= {one["name"] for one in node["auth_mechanisms"] if one["enabled"]}
    one = api.get(f"/nodes/{node['name']}").json
    assert set(one) == set(node)
    assert api.get("/nodes/other@host").error == (404, "Object Not Found", "Not Found")


def test_a_node_shows_its_alarms(api: Api) -> None:
    assert not node_of(api)["mem_alarm"] and not node_of(api)["disk_free_alarm"]
    api.host.node.alarms.set("memory")
    assert node_of(api)["mem_alarm"] and not node_of(api)["disk_free_alarm"]


def test_the_uses_of_memory_add_up(api: Api) -> None:
    name = node_of(api)["name"]
    memory = api.get(f"/nodes/{name}/memory").json["memory"]
    assert memory["strategy"] == "rss" and memory["total"]["rss"] == 1 << 20
    assert sum(value for value in memory.values() if isinstance(value, int)) == 1 << 20
    assert node_of(api, "?memory=true")["memory"] == memory
    relative = api.get(f"/nodes/{name}/memory/relative").json["memory"]
    assert relative.pop("total") == 100 and sum(relative.values()) in range(100, 104)


def test_plugins_are_those_that_the_node_runs(api: Api) -> None:
    (node,) = api.get("/nodes").json
    assert node["enabled_plugins"] == api.host.plugins()
    assert "rabbitmq_federation" not in node["enabled_plugins"]
    api.host.services["federation"] = Service()
    (node,) = api.get("/nodes").json
    assert {"rabbitmq_federation", "rabbitmq_event_exchange"} <= set(node["enabled_plugins"])


def test_the_cluster_can_be_called_otherwise(api: Api) -> None:
    assert api.put("/cluster-name", {"name": "burrow", "more": 1}).status == 204
    assert api.get("/cluster-name").json == {"name": "burrow"}
    assert api.get("/overview").json["cluster_name"] == "burrow"
    assert api.put("/cluster-name", {}).error == (400, "bad_request", "[{key_missing,name}]")
    length = "has 1 to 255 octets"
    for name, reason in (("", length), ("x" * 256, length), ("a\n", "has more than one line")):
        refused = (400, "bad_request", f"the name of the cluster {reason}")
        assert api.put("/cluster-name", {"name": name}).error == refused
        assert api.put("/global-parameters/cluster_name", {"value": name}).error == refused
        imported = api.post("/definitions", {"global_parameters": [{"name": "cluster_name", "value": name}]})
        assert imported.error[0] == 400 and reason in imported.error[2]
    assert api.get("/cluster-name").json == {"name": "burrow"}


def test_whoami_returns_name_and_tags(api: Api) -> None:
    assert api.get("/whoami").json == {"name": "guest", "tags": ["administrator"], "is_internal_user": True}
    api.peer.add_user("m", ("management", "own"))
    assert api.get("/whoami", user="m").json["tags"] == ["management", "own"]


def test_a_requested_hash_accepts_its_password(api: Api) -> None:
    password_hash = api.get("/auth/hash_password/pass%2Fword").json["ok"]
    assert len(base64.b64decode(password_hash)) == 36
    assert verify_password(password_hash.encode(), b"pass/word")
    assert api.put("/users/u", {"tags": "", "password_hash": password_hash}).status == 201
    assert api.get("/users/u").json["password_hash"] == password_hash


def test_attempts_to_log_in_are_counted_by_protocol(api: Api) -> None:
    node = api.host.node.name
    api.peer.connect()
    api.get("/whoami", password="wrong")
    by_protocol = {one["protocol"]: one for one in api.get(f"/auth/attempts/{node}").json}
    assert by_protocol["amqp091"]["auth_attempts_succeeded"] == 1
    http = by_protocol["http"]
    assert (http["auth_attempts"], http["auth_attempts_succeeded"], http["auth_attempts_failed"]) == (2, 1, 1)
    assert api.get(f"/auth/attempts/{node}/source").json == []
    assert api.delete(f"/auth/attempts/{node}").status == 204
    assert api.get("/auth/attempts/other@host").status == 404


def test_features_are_all_enabled(api: Api) -> None:
    flags = api.get("/feature-flags").json
    assert {one["state"] for one in flags} == {"enabled"} and "quorum_queue" in {one["name"] for one in flags}
    assert api.put("/feature-flags/quorum_queue/enable").status == 204
    assert api.put("/feature-flags/nope/enable").status == 400
    deprecated = {one["name"]: one for one in api.get("/deprecated-features").json}
    assert deprecated["classic_queue_mirroring"]["deprecation_phase"] == "removed"
    assert set(deprecated["global_qos"]) == {"name", "desc", "deprecation_phase", "doc_url", "provided_by"}
    assert api.get("/deprecated-features/used").json == []


def test_small_things_that_tools_ask_for(api: Api) -> None:
    assert api.get("/version", user=None).json == api.host.node.version
    assert api.get("/extensions").json == [{"javascript": "dispatcher.js"}]
    assert api.post("/rebalance/queues").status == 204
    assert api.delete("/reset").status == api.delete(f"/reset/{api.host.node.name}").status == 204


def test_the_configuration_is_shown_without_secrets(api: Api) -> None:
    answer = api.get("/config/effective")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.body.splitlines()
    assert b"heartbeat = 60" in lines and not any(line.startswith(b"default_pass = ") for line in lines)
